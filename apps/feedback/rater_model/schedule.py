"""How many decisions a run wants by when: a first share before it learns, the rest evenly while it does."""

from dataclasses import dataclass

from apps.runs.people import Schedule


@dataclass(frozen=True)
class Due:
    """Decisions wanted by a step, counted from the run's start; rewrites are among them."""

    decisions: int
    rewrites: int


def due(schedule: Schedule, step: int, planned_steps: int) -> Due:
    """What is wanted before the update after `step` updates."""
    decisions = _by(schedule.decisions, first_share(schedule), step, schedule.until * planned_steps)
    rewrites_first = round(schedule.rewrites * first_share(schedule) / schedule.decisions)
    rewrites = _by(schedule.rewrites, rewrites_first, step, schedule.rewrites_until * planned_steps)
    return Due(decisions, min(rewrites, decisions))


def first_share(schedule: Schedule) -> int:
    """Decisions wanted before the first update."""
    return min(schedule.decisions, max(round(schedule.first * schedule.decisions), schedule.first_at_least))


def _by(total: int, first: int, step: int, until: float) -> int:
    passed = 1.0 if until <= 0 else min(1.0, step / until)
    return first + int((total - first) * passed + 1e-9)
