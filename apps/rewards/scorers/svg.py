"""Rewards SVG markup by its visual similarity to the target, relative to an empty image."""

from pydantic import Field

from apps.rewards.final_answer import after_thinking
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict
from apps.rewards.svg_pictures import NoDrawing, draw_svg, likeness, svg_in

VERSION = 2


class Options(ScorerOptions):
    min_similarity: float = Field(
        0.0, ge=0, le=1, description="Similarity below this value gets no reward."
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Score the likeness of the reply's last <svg> to `answer["svg"]`, both rendered.

    1 is the same, 0 no better than one even colour.
    """
    expected = task.answer.get("svg", task.answer.get("value"))
    try:
        picture = draw_svg(expected if isinstance(expected, str) else "")
    except NoDrawing as error:
        return Verdict(None, f"the task's SVG cannot be drawn: {error}"[:300])
    try:
        drawing = svg_in(after_thinking(rollout.text))
        alike = likeness(picture, draw_svg(drawing))
    except NoDrawing as error:
        return Verdict(0.0, str(error)[:300])
    value = alike if alike >= options.min_similarity else 0.0
    return Verdict(
        value,
        f"similarity to the image {alike:.2f}",
        {"likeness": round(alike, 6), "characters": len(drawing)},
    )
