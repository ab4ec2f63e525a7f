"""Makes a demonstration of each group's best reply if it is good and above the group mean.

Rejection sampling (RAFT, arXiv 2304.06767; STaR, arXiv 2203.14465) beside the policy gradient: what
was right once is shown to the policy again in later steps, as MIX shows it demonstrations. The
row is the rollout itself, to the token, and is learned from by the expert loss alone; as a sample
the rollout counts as it would without.
"""

import math
from collections.abc import Collection, Sequence
from itertools import count

from pydantic import Field

from apps.pipelines.operators.contract import (
    Imitated,
    Made,
    OperatorOptions,
    Sample,
    Sifted,
    group_samples,
)
from apps.pipelines.operators.truncated import CUT

FAMILY = "synthesize"
ASKS = ("imitated",)
EXACT = 1e-9


class Options(OperatorOptions):
    threshold: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Minimum reward of such an answer. Null: the maximum reward.",
    )
    max_answers: int = Field(
        4,
        ge=1,
        le=1_000,
        description="Number of different answers per task that become expert data.",
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Make demonstrations of the best answers of each group; keep all samples.

    Of equally good answers, the earliest that is not a demonstration yet is used. Answers that were
    cut, or are masked, are not used.
    """
    answers_by_task: dict[int, dict[int, str]] = {}
    rows = []
    for members in group_samples(samples).values():
        imitated = members[0].imitated or Imitated(members[0].group)
        answers = answers_by_task.setdefault(imitated.task, dict(imitated.answers))
        number = next(number for number in count(1) if number not in answers)
        best = (
            _best_member(members, options.threshold, answers.values())
            if number <= options.max_answers
            else None
        )
        if best is not None:
            answers[number] = best.text
            rows.append(Made(best, _why(best, members), number))
    return Sifted(list(samples), made=rows)


def _best_member(
    members: Sequence[Sample], threshold: float | None, existing: Collection[str]
) -> Sample | None:
    unmasked = [sample for sample in members if not sample.silent]
    highest = max((sample.reward for sample in unmasked), default=-math.inf)
    min_reward = members[0].full if threshold is None else threshold
    if highest < min_reward - EXACT or highest <= _mean(members) + EXACT:
        return None
    good = (
        sample
        for sample in unmasked
        if sample.reward == highest
        and sample.stop_reason not in CUT
        and sample.text not in existing
    )
    return next(good, None)


def _why(best: Sample, members: Sequence[Sample]) -> str:
    return (
        f"the reward {best.reward:.4g} is the best of {len(members)}; their mean is "
        f"{_mean(members):.4g}"
    )


def _mean(members: Sequence[Sample]) -> float:
    return math.fsum(sample.reward for sample in members) / len(members)
