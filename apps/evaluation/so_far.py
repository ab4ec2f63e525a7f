"""Interim results of an incomplete evaluation, computed at intervals, however many people watch.

They are computed from all samples, so the time grows with their number. The result is cached and
recomputed after twenty times as long as it took: at most a twentieth of one process is used, and a
small evaluation is followed closely.
"""

import time
from dataclasses import asdict, dataclass

from django.core.cache import cache

from apps.evaluation.models import EvaluationResult
from apps.evaluation.results import EvaluationMetrics, summed_up
from apps.rollouts.models import Group
from apps.runs.models import Run

REST = 20
MIN_SECONDS = 2.0
BUSY_S = 300  # seconds after which a computation counts as dead
KEPT_S = 86_400  # seconds; for a stopped evaluation, which does not change any more


@dataclass(frozen=True)
class SoFar:
    """Interim results; `metrics` is None while they are computed for the first time.

    `age_s` is their age, 0 for a complete evaluation.
    """

    metrics: EvaluationMetrics | None
    closed: int  # tasks that are closed by now
    age_s: float = 0.0


def load_results_so_far(run: Run) -> SoFar:
    """Return the final results of a complete evaluation, else the latest interim ones."""
    metrics = EvaluationResult.objects.filter(run=run).values_list("metrics", flat=True).first()
    if metrics:
        return SoFar(EvaluationMetrics(**metrics), metrics["closed"])
    closed = run.groups.filter(state__in=Group.CLOSED).count()
    cached = cache.get(_key(run))
    is_due = cached is None or time.time() > cached["due_at"]
    if is_due and cache.add(_key(run, "busy"), 1, BUSY_S):
        try:
            cached = _compute(run)
        finally:
            cache.delete(_key(run, "busy"))
    return (
        SoFar(EvaluationMetrics(**cached["metrics"]), closed, time.time() - cached["made_at"])
        if cached
        else SoFar(None, closed)
    )


def _compute(run: Run) -> dict:
    began = time.time()
    is_over = run.state in Run.ENDED and not run.groups.filter(state__in=Group.OPEN).exists()
    metrics = asdict(summed_up(run))
    ended = time.time()
    pause_s = KEPT_S if is_over else max(MIN_SECONDS, REST * (ended - began))
    result = {"metrics": metrics, "made_at": began, "due_at": ended + pause_s}
    cache.set(_key(run), result, KEPT_S)
    return result


def _key(run: Run, of: str = "metrics") -> str:
    return f"evaluation-so-far:{run.pk}:{of}"
