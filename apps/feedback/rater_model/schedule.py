"""How many decisions a run wants by when: a first share before it learns, the rest evenly while it does.

Counted in groups, of which every update takes as many: so the questions are spread over different groups, too.
"""

from dataclasses import dataclass
from fractions import Fraction

from apps.runs.config import RunConfig
from apps.runs.people import COMPARES, Schedule


@dataclass(frozen=True)
class Due:
    """Decisions wanted by a group, counted from the run's start; rewrites are among them."""

    decisions: int
    rewrites: int


def due(plan: RunConfig, groups: int) -> Due:
    """What is wanted once so many groups have come."""
    schedule = plan.people.schedule
    decisions = _by(groups, schedule.decisions, first_share(plan), plan, schedule.until)
    rewrites = _by(groups, schedule.rewrites, _first_rewrites(plan), plan, schedule.rewrites_until)
    return Due(decisions, min(rewrites, decisions))


def first_share(plan: RunConfig) -> int:
    """Decisions wanted before the first update; no more than there are replies to ask about by then."""
    schedule = plan.people.schedule
    wanted = min(schedule.decisions, max(round(schedule.first * schedule.decisions), schedule.first_at_least))
    return min(wanted, first_groups(plan) * most_per_group(plan))


def first_groups(plan: RunConfig) -> int:
    """Groups that are sampled before the first update."""
    return plan.groups_per_step * (1 + plan.max_staleness)


def most_per_group(plan: RunConfig) -> int:
    """Decisions that one group can be asked for: one per rollout, or what its rollouts give to compare."""
    people = plan.people
    if people.form not in COMPARES:
        return people.per_group
    return (people.pairs or people.per_group) if people.form == "pairwise" else 1


def _first_rewrites(plan: RunConfig) -> int:
    schedule: Schedule = plan.people.schedule
    return round(schedule.rewrites * first_share(plan) / schedule.decisions)


def _by(groups: int, total: int, first: int, plan: RunConfig, until: float) -> int:
    """The first within the groups before the first update, the rest up to that share of the run's groups."""
    start, end = first_groups(plan), Fraction(until).limit_denominator(10_000) * plan.steps * plan.groups_per_step
    if groups <= start:
        return first * groups // start
    if groups >= end:
        return total
    return first + int((total - first) * Fraction(groups - start) / (end - start))
