"""DAPO's dynamic sampling: keeps groups that are neither all right nor all wrong, by one scorer's word.

What is dropped is drawn anew, so that each update has its full number of groups (arXiv 2503.14476, §3.2, eq. 11).
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift_groups

FAMILY = "filter"


class Options(OperatorOptions):
    scorer: str = Field("", max_length=60, description="Whose word says what is right; empty takes the reward's share of the full.")
    right: float = Field(0.5, allow_inf_nan=False, description="A value above this is right.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """A shaped reward would tell right answers apart from each other; a scorer's own word does not."""
    return sift_groups(samples, lambda members: _why_not(members, options))


def _why_not(members: list[Sample], options: Options) -> str:
    values = [_value(sample, options.scorer) for sample in members]
    if None in values:
        return f"scorer {options.scorer!r} said nothing of {values.count(None)} of its {len(values)} answers"
    right = sum(value > options.right for value in values)
    return "" if 0 < right < len(values) else f"all {len(values)} answers are {'right' if right else 'wrong'}"


def _value(sample: Sample, scorer: str) -> float | None:
    return sample.by_scorer.get(scorer) if scorer else sample.reward / sample.full
