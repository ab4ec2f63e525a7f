"""Makes a DPO preference pair of each group's best and worst reply if they differ enough.

The pair is a lesson of the project that nobody said, with the difference of the rewards as its
margin and both rollouts named. Runs that learn from preferences take it, and it is exported with
the run's other pairs; this run itself learns nothing from it.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import Made, OperatorOptions, Sample, Sifted, group_samples

FAMILY = "synthesize"
EXACT = 1e-9


class Options(OperatorOptions):
    margin: float = Field(
        0.5, gt=0, allow_inf_nan=False, description="Minimum difference between the two rewards."
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Make a preference of the best and the worst answer of each group; keep all samples.

    Of equals the earliest is taken; no answer that is masked or empty, and none of a dialogue.
    """
    pairs = (_pair(members, options.margin) for members in group_samples(samples).values())
    return Sifted(list(samples), made=[pair for pair in pairs if pair is not None])


def _pair(members: Sequence[Sample], min_margin: float) -> Made | None:
    usable = [
        sample
        for sample in members
        if not sample.silent and not sample.is_dialogue and sample.text.strip()
    ]
    if not usable:
        return None
    best = max(usable, key=lambda sample: sample.reward)
    worst = min(usable, key=lambda sample: sample.reward)
    margin = best.reward - worst.reward
    if margin < min_margin - EXACT or best.text == worst.text:
        return None
    return Made(
        best, f"rewards {best.reward:.4g} and {worst.reward:.4g}", over=worst, margin=margin
    )
