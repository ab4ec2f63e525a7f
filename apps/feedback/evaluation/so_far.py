"""What an evaluation that is not complete has found so far: reckoned now and then, however many look and however often.

It is made of all its samples, so it takes the longer the more there are. It is kept in the cache and made anew after twenty times
as long as it took: a twentieth of one process is spent on it at most, and a small evaluation is followed as it goes.
"""

import time
from dataclasses import asdict, dataclass

from django.core.cache import cache

from apps.feedback.evaluation.results import Found, summed_up
from apps.feedback.models import EvaluationResult
from apps.rollouts.models import Group
from apps.runs.models import Run

REST, SHORTEST_S = 20, 2.0  # times what it took; the least time between two
BUSY_S = 300  # seconds after which whoever makes it is given up
KEPT_S = 86_400  # seconds: of a stopped one, which nothing adds to any more


@dataclass(frozen=True)
class SoFar:
    """`found`: None while somebody reckons it for the first time. `age_s`: how old it is, 0 of what is complete."""

    found: Found | None
    closed: int  # tasks that are through by now
    age_s: float = 0.0


def found_of(run: Run) -> SoFar:
    """Of a completed evaluation as it was summed up, of another as it was when that was last reckoned."""
    figures = EvaluationResult.objects.filter(run=run).values_list("figures", flat=True).first()
    if figures:
        return SoFar(Found(**figures), figures["closed"])
    closed, told = run.groups.filter(state__in=Group.CLOSED).count(), cache.get(_key(run))
    is_due = told is None or time.time() > told["due_at"]
    if is_due and cache.add(_key(run, "busy"), 1, BUSY_S):
        try:
            told = _reckoned(run)
        finally:
            cache.delete(_key(run, "busy"))
    return SoFar(Found(**told["found"]), closed, time.time() - told["made_at"]) if told else SoFar(None, closed)


def _reckoned(run: Run) -> dict:
    began, is_over = time.time(), run.state in Run.ENDED and not run.groups.filter(state__in=Group.OPEN).exists()
    found, ended = asdict(summed_up(run)), time.time()
    rest = KEPT_S if is_over else max(SHORTEST_S, REST * (ended - began))
    told = {"found": found, "made_at": began, "due_at": ended + rest}
    cache.set(_key(run), told, KEPT_S)
    return told


def _key(run: Run, of: str = "found") -> str:
    return f"evaluation-so-far:{run.pk}:{of}"
