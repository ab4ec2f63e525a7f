"""Pays markup that draws the wanted picture: the likeness of what an SVG shows, beyond an empty sheet's."""

from pydantic import Field

from apps.rewards.drawing import NoDrawing, drawn, likeness, svg_in
from apps.rewards.final_answer import after_thinking
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict


class Options(ScorerOptions):
    least: float = Field(0.0, ge=0, le=1, description="What is less like the picture than this earns nothing.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """How like `answer["svg"]` the reply's last <svg> is, both drawn: 1 is the same, 0 no better than one even colour."""
    wanted = task.answer.get("svg", task.answer.get("value"))
    try:
        picture = drawn(wanted if isinstance(wanted, str) else "")
    except NoDrawing as error:
        return Verdict(None, f"the task's svg is not drawn: {error}"[:300])
    try:
        said = svg_in(after_thinking(rollout.text))
        alike = likeness(picture, drawn(said))
    except NoDrawing as error:
        return Verdict(0.0, str(error)[:300])
    value = alike if alike >= options.least else 0.0
    return Verdict(value, f"like the picture by {alike:.2f}", {"likeness": round(alike, 6), "characters": len(said)})
