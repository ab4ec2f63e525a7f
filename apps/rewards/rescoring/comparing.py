"""Effect of a new set of rewards: on each rollout, and on what can be learned from a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.rewards.combining import RATER_MODEL, Judgement, combined, machine_reward
from apps.rewards.models import Rescored
from apps.runs.config import RunConfig
from apps.tasksets.judged_by import Kind

ROUNDING = 1e-9
Fate = Rescored.Fate


@dataclass(frozen=True)
class Sides:
    """Configurations of one run before and after, which differ in their scorers alone."""

    before: RunConfig
    after: RunConfig

    def stays(self, judgement: Judgement) -> bool:
        """Tell whether a judgement is kept: it is by people, the rater model or the environment."""
        environment = self.before.environment
        return (
            judgement.is_human
            or judgement.scorer == RATER_MODEL
            or (environment is not None and judgement.scorer == environment.name)
        )


@dataclass(frozen=True)
class ComparedGroup:
    """Rollouts of a group before and after, not saved yet (without their rescoring)."""

    rollouts: Sequence[Rescored]

    @property
    def other_best(self) -> bool:
        before = _best(self.befores)
        after = _best(self.afters)
        return bool(before and after) and not before & after

    @property
    def befores(self) -> dict[int, float]:
        return {row.rollout_id: row.before for row in self.rollouts if row.before is not None}

    @property
    def afters(self) -> dict[int, float]:
        return {row.rollout_id: row.after for row in self.rollouts if row.after is not None}


def compare_rewards(
    sides: Sides,
    kind: Kind,
    before: Mapping[int, Sequence[Judgement]],
    new: Mapping[int, Mapping[str, float | None]],
) -> ComparedGroup:
    """Compare a group's rewards before and after.

    `before`: the current judgements of each rollout; `new`: the new scorers' values, by rollout and
    scorer.
    """
    return ComparedGroup(
        [
            _row(sides, kind, rollout, before.get(rollout, ()), judgements)
            for rollout, judgements in new.items()
        ]
    )


def _row(
    sides: Sides,
    kind: Kind,
    rollout: int,
    judgements: Sequence[Judgement],
    new: Mapping[str, float | None],
) -> Rescored:
    now = [
        *filter(sides.stays, judgements),
        *(Judgement(scorer, value) for scorer, value in new.items()),
    ]
    before = machine_reward(judgements, sides.before.judges_of(kind))
    after = machine_reward(now, sides.after.judges_of(kind))
    fate, size = classify_change(before, after)
    return Rescored(
        rollout_id=rollout,
        before=before,
        after=after,
        fate=fate,
        size=size,
        counted_before=combined(judgements, sides.before, kind),
        counted_after=combined(now, sides.after, kind),
    )


def classify_change(before: float | None, after: float | None) -> tuple[str, float]:
    """Return the direction and the size of a reward's change.

    Sums in another order differ by rounding, which is no change.
    """
    if before is None or after is None:
        return (Fate.NONE if before is after else Fate.GAINED if before is None else Fate.LOST), 0.0
    size = abs(after - before)
    if size <= ROUNDING:
        return Fate.SAME, 0.0
    return (Fate.HIGHER if after > before else Fate.LOWER), size


def _best(values: Mapping[int, float]) -> set[int]:
    highest = max(values.values(), default=0.0)
    return {rollout for rollout, value in values.items() if value >= highest - ROUNDING}


def has_signal(values: Mapping[int, float]) -> bool:
    """Tell whether a group's rewards differ; nothing can be learned from equal ones."""
    return bool(values) and max(values.values()) - min(values.values()) > ROUNDING
