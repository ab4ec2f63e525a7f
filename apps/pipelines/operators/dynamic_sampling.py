"""Drops groups in which all replies are correct or all are wrong (DAPO's dynamic sampling).

What is dropped is drawn again, so that each step has its full number of groups (arXiv 2503.14476,
§3.2, eq. 11).
"""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, sift_groups

FAMILY = "filter"


class Options(OperatorOptions):
    scorer: str = Field(
        "",
        max_length=60,
        description=(
            "Scorer that determines which answers are correct. If empty, the reward "
            "as a share of its maximum."
        ),
    )
    correct_threshold: float = Field(
        0.5, allow_inf_nan=False, description="An answer is correct if its value is above this."
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop groups whose answers are all right or all wrong, by one scorer's own values.

    A shaped reward would distinguish right answers from each other. A missing value drops the
    group.
    """
    return sift_groups(samples, lambda members: _why_not(members, options))


def _why_not(members: list[Sample], options: Options) -> str:
    values = [_value(sample, options.scorer) for sample in members]
    if None in values:
        return (
            f"scorer {options.scorer!r} gave no reward to {values.count(None)} of the "
            f"{len(values)} answers"
        )
    right = sum(value > options.correct_threshold for value in values if value is not None)
    return (
        ""
        if 0 < right < len(values)
        else f"all {len(values)} answers are {'correct' if right else 'wrong'}"
    )


def _value(sample: Sample, scorer: str) -> float | None:
    return sample.by_scorer.get(scorer) if scorer else sample.reward / sample.full
