"""Schedule decisions: a first share before the run learns, the rest evenly afterwards.

Progress is counted in groups, of which every step takes the same number, so the questions are
also spread over different groups.
"""

from dataclasses import dataclass
from fractions import Fraction

from apps.runs.config import RunConfig
from apps.runs.people import COMPARES, Schedule


@dataclass(frozen=True)
class Due:
    """The decisions due up to a group, counted from the run's start, including rewrites."""

    decisions: int
    rewrites: int


def read_schedule(plan: RunConfig) -> Schedule:
    """Return the schedule of a run that has one."""
    assert plan.people.schedule is not None  # the caller has looked
    return plan.people.schedule


def schedule_decisions(plan: RunConfig, groups: int) -> Due:
    """Return the decisions due after this number of groups."""
    schedule = read_schedule(plan)
    decisions = _decisions_due(
        groups, schedule.decisions, first_share(plan), plan, schedule.end_share
    )
    rewrites = _decisions_due(
        groups, schedule.rewrites, _first_rewrites(plan), plan, schedule.rewrites_end_share
    )
    return Due(decisions, min(rewrites, decisions))


def first_share(plan: RunConfig) -> int:
    """Return the decisions due before the first step, at most those that its replies allow."""
    schedule = read_schedule(plan)
    planned = min(
        schedule.decisions,
        max(round(schedule.initial_share * schedule.decisions), schedule.min_initial_ratings),
    )
    return min(planned, first_groups(plan) * most_per_group(plan))


def first_groups(plan: RunConfig) -> int:
    """Return how many groups are sampled before the first step."""
    return plan.groups_per_step * (1 + plan.max_staleness)


def most_per_group(plan: RunConfig) -> int:
    """Return the most decisions that one group can be asked for.

    One per rollout, or as many comparisons as its rollouts allow.
    """
    people = plan.people
    if people.form not in COMPARES:
        return people.per_group
    return (people.pairs or people.per_group) if people.form == "pairwise" else 1


def _first_rewrites(plan: RunConfig) -> int:
    schedule = read_schedule(plan)
    return round(schedule.rewrites * first_share(plan) / schedule.decisions)


def _decisions_due(groups: int, total: int, first: int, plan: RunConfig, end_share: float) -> int:
    """Return the decisions due after this number of groups.

    The first share falls within the groups before the first step, the rest up to `end_share` of the
    run's groups.
    """
    start = first_groups(plan)
    end = Fraction(end_share).limit_denominator(10_000) * plan.steps * plan.groups_per_step
    if groups <= start:
        return first * groups // start
    if groups >= end:
        return total
    return first + int((total - first) * Fraction(groups - start) / (end - start))
