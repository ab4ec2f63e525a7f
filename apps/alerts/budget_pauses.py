"""Pause the evaluations of runs whose budget is used up, and resume them with their run."""

from collections import Counter
from collections.abc import Iterator

from apps.runs.costs import used_up
from apps.runs.models import NotPossible, Run

HELD = "Budget of its run"  # prefix of the reason of evaluations paused here, and of no others


def hold_evaluations() -> Counter[str]:
    """Pause running evaluations of runs over budget; resume those paused here once it allows.

    Returns the counts of both.
    """
    counts: Counter[str] = Counter()
    for evaluation, run, why in _list_evaluations():
        try:
            if evaluation.is_live and why:
                evaluation.pause(reason=f"{HELD}: {why}"[:500])
                counts["evaluations_held"] += 1
            elif not evaluation.is_live and not why and run.is_live:
                evaluation.resume(reason="the budget of its run is no longer used up")
                counts["evaluations_resumed"] += 1
        except NotPossible:  # its state has changed since it was read
            continue
    return counts


def _list_evaluations() -> Iterator[tuple[Run, Run, str]]:
    """Yield running or paused evaluations with their run and how its budget is used up.

    Only runs that have a budget, or had one when the evaluation was paused, are included.
    """
    asking = Run.objects.filter(is_evaluation=True).select_related(
        "evaluates__run", "project", "topic"
    )
    live = asking.running().exclude(evaluates__run__config__budget=None)
    paused = asking.filter(state=Run.State.PAUSED, state_reason__startswith=HELD)
    used_up_by_run: dict[int, str] = {}
    for evaluation in (live | paused).order_by("pk"):
        if evaluation.evaluates is None:  # the policy's own weights: of no run
            continue
        run = evaluation.evaluates.run
        if run.pk not in used_up_by_run:
            used_up_by_run[run.pk] = used_up(run)
        yield evaluation, run, used_up_by_run[run.pk]
