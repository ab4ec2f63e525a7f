"""What a new set of rewards changes: of each rollout, and of what can be learned from a group."""

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
    """The configuration as it judged before, and with the new scorers; of one run, so that all else is the same."""

    before: RunConfig
    after: RunConfig

    def stays(self, said: Judgement) -> bool:
        """Whether it is nothing that a scorer said: people's words, and the rater model's and the environment's."""
        environment = self.before.environment
        return said.is_human or said.scorer == RATER_MODEL or (environment is not None and said.scorer == environment.name)


@dataclass(frozen=True)
class Compared:
    """A group's rollouts before and after, not yet written (without their rescoring)."""

    rollouts: Sequence[Rescored]

    @property
    def other_best(self) -> bool:
        before, after = _best(self.befores), _best(self.afters)
        return bool(before and after) and not before & after

    @property
    def befores(self) -> dict[int, float]:
        return {row.rollout_id: row.before for row in self.rollouts if row.before is not None}

    @property
    def afters(self) -> dict[int, float]:
        return {row.rollout_id: row.after for row in self.rollouts if row.after is not None}


def compared(
    sides: Sides, kind: Kind, before: Mapping[int, Sequence[Judgement]], new: Mapping[int, Mapping[str, float | None]]
) -> Compared:
    """`before`: what stands of each rollout; `new`: by rollout and scorer, what the new scorers say."""
    return Compared([_row(sides, kind, rollout, before.get(rollout, ()), said) for rollout, said in new.items()])


def _row(sides: Sides, kind: Kind, rollout: int, said: Sequence[Judgement], new: Mapping[str, float | None]) -> Rescored:
    now = [*filter(sides.stays, said), *(Judgement(scorer, value) for scorer, value in new.items())]
    before = machine_reward(said, sides.before.judges_of(kind))
    after = machine_reward(now, sides.after.judges_of(kind))
    fate, size = fate_of(before, after)
    return Rescored(
        rollout_id=rollout, before=before, after=after, fate=fate, size=size,
        counted_before=combined(said, sides.before, kind), counted_after=combined(now, sides.after, kind),
    )  # fmt: skip


def fate_of(before: float | None, after: float | None) -> tuple[str, float]:
    """In which direction, and how far. Sums in another order differ by rounding, which is no change."""
    if before is None or after is None:
        return (Fate.NONE if before is after else Fate.GAINED if before is None else Fate.LOST), 0.0
    size = abs(after - before)
    if size <= ROUNDING:
        return Fate.SAME, 0.0
    return (Fate.HIGHER if after > before else Fate.LOWER), size


def _best(values: Mapping[int, float]) -> set[int]:
    most = max(values.values(), default=0.0)
    return {rollout for rollout, value in values.items() if value >= most - ROUNDING}


def has_signal(values: Mapping[int, float]) -> bool:
    """Whether a group's rewards differ: what compares them learns nothing where all are equal."""
    return bool(values) and max(values.values()) - min(values.values()) > ROUNDING
