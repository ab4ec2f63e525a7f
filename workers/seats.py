"""What a run that waits for a seat says: which kind of seat, and which runs have them all."""

from collections.abc import Collection

from apps.runs.models import Run

NAMED = 3  # holders that are named; waiting_on is short
# How an explorer's words begin for a run that it cannot sample.
WAITS_FOR_ENGINE = "waits for an engine"
WAITS_FOR_WEIGHTS = "waits for weights"


def seat_wanted(run: Run, holders: Collection[Run]) -> str:
    """Such as "2 of 2 are taken by alpha and beta".

    Runs of other projects are counted and not named: whoever sees this run may not see them.
    """
    known = sorted(holder.slug for holder in holders if holder.project_id == run.project_id)
    names = known[:NAMED]
    if others := len(known) - len(names):
        names.append(f"{others} more")
    if foreign := len(holders) - len(known):
        names.append(f"{foreign} run{'s' if foreign > 1 else ''} of other projects")
    return f"{len(holders)} of {len(holders)} are taken by {_listed(names)}"


def built_lately(seconds: float) -> str:
    return f"it had one that was built less than {seconds} s ago"


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
