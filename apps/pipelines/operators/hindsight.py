"""Makes demonstrations of failed replies, for the task that they did solve.

Hindsight relabelling (HER, arXiv 1707.01495; for language models HIR, arXiv 2302.05206): a formula
that was to make 24 and makes 17 answers the task to make 17 of the same numbers. A scorer says what
was reached, the task's own template asks for it. The row has the answer's own tokens after the
other prompt; the answer itself counts as it would without.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import Made, OperatorOptions, Sample, Sifted, group_samples
from apps.pipelines.operators.truncated import CUT
from apps.runs.config import RunConfig
from apps.tasksets.generators import REACHED_BY

FAMILY = "synthesize"
ASKS = ("reached",)
EXACT = 1e-9


class Options(OperatorOptions):
    max_answers: int = Field(
        2,
        ge=1,
        le=1_000,
        description="Number of answers per group that are relabelled, starting with the first.",
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Make rows of what wrong answers have reached; keep all samples.

    Answers that were cut or are masked are not used. Of several with the same result, the first is.
    """
    rows = [
        row
        for members in group_samples(samples).values()
        for row in _make_for_group(members, options.max_answers)
    ]
    return Sifted(list(samples), made=rows)


def why_not(plan: RunConfig) -> str:
    """Return why answers of this run cannot be relabelled by what they reached; "" if they can."""
    if plan.environment or plan.serve:
        return (
            "relabels answers to generated tasks, so it cannot be used with `environment` or "
            "`serve`"
        )
    if plan.algorithm.expert.source == "same_prompt":
        return "creates rows with different prompts, so algorithm.expert.source must be `buffer`"
    if not any(choice.scorer in REACHED_BY for choice in plan.rewards):
        return (
            f"requires one of the scorers {', '.join(sorted(REACHED_BY))}, which report what "
            "a wrong answer achieves"
        )
    return ""


def _make_for_group(members: Sequence[Sample], limit: int) -> list[Made]:
    rows_by_question: dict[str, Made] = {}
    for sample in members:
        row = sample.reached.get(sample.rollout)
        if (
            row is None
            or sample.silent
            or sample.is_dialogue
            or sample.stop_reason in CUT
            or sample.reward >= sample.full - EXACT
        ):
            continue
        question = row.prompt[-1]["content"]
        assert isinstance(question, str)  # as what was reached is asked for in words
        rows_by_question.setdefault(
            question,
            Made(
                sample, f"the reward is {sample.reward:.4g}, and it answers: {question}", task=row
            ),
        )
    return list(rows_by_question.values())[:limit]
