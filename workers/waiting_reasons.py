"""The status text of a run that waits for a worker: which kind, and which runs hold them all."""

from collections.abc import Collection

from apps.runs.models import Run

NAMED = 3  # the most holders named; waiting_on is short
# The beginning of an explorer's status for a run that it cannot sample.
WAITS_FOR_ENGINE = "waiting for an engine"
WAITS_FOR_WEIGHTS = "waiting for weights"


def all_taken(run: Run, holders: Collection[Run]) -> str:
    """Return a text such as "2 of 2 are used by alpha and beta".

    Runs of other projects are counted and not named: a user who sees this run may not see them.
    """
    slugs = sorted(holder.slug for holder in holders if holder.project_id == run.project_id)
    names = slugs[:NAMED]
    if unnamed := len(slugs) - len(names):
        names.append(f"{unnamed} more")
    if foreign := len(holders) - len(slugs):
        names.append(f"{foreign} run{'s' if foreign > 1 else ''} of other projects")
    return f"{len(holders)} of {len(holders)} are used by {_join_names(names)}"


def built_lately(seconds: float) -> str:
    return f"its last one was built less than {seconds} s ago"


def _join_names(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
