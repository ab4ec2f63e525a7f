"""Makes expert rows of wrong answers: each is the right answer to the task that asks for what it has reached.

Hindsight relabelling (HER, arXiv 1707.01495; for language models HIR, arXiv 2302.05206): a formula that was to make 24 and makes 17
answers the task to make 17 of the same numbers. A scorer says what was reached, the task's own template asks for it. The row has
the answer's own tokens after the other prompt; the answer itself counts as it would without.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import Made, OperatorOptions, Sample, Sifted, grouped
from apps.pipelines.operators.truncated import CUT
from apps.runs.config import RunConfig
from apps.tasksets.generators import REACHED_BY

FAMILY = "synthesize"
ASKS = ("reached",)
EXACT = 1e-9


class Options(OperatorOptions):
    most: int = Field(2, ge=1, le=1_000, description="Answers of a group that become such rows, the first ones.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Keeps all samples. No answer that was cut or is masked; of several that reached the same the first."""
    made = [one for members in grouped(samples).values() for one in _of_group(members, options.most)]
    return Sifted(list(samples), made=made)


def why_not(plan: RunConfig) -> str:
    """Of which runs nobody could say what an answer has reached."""
    if plan.environment or plan.serve:
        return "relabels answers to tasks of generators: a run that acts in an environment, or serves callers, has none"
    if plan.algorithm.expert.source == "same_prompt":
        return "makes rows of other prompts than the group's: set algorithm.expert.source to `buffer`"
    if not any(choice.scorer in REACHED_BY for choice in plan.rewards):
        return f"needs a scorer that says what a wrong answer has reached, and the run has none: {', '.join(sorted(REACHED_BY))} do"
    return ""


def _of_group(members: Sequence[Sample], most: int) -> list[Made]:
    found: dict[str, Made] = {}
    for one in members:
        row = one.reached.get(one.rollout)
        if row is None or one.silent or one.is_dialogue or one.stop_reason in CUT or one.reward >= one.full - EXACT:
            continue
        asked = row.prompt[-1]["content"]
        found.setdefault(asked, Made(one, f"its reward is {one.reward:.4g}, and it answers: {asked}", task=row))
    return list(found.values())[:most]
