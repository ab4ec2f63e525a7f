"""Evaluations of runs whose budget is used up: held as the run is, and let go on when it goes on."""

from collections import Counter
from collections.abc import Iterator

from apps.runs.costs import used_up
from apps.runs.models import NotPossible, Run

HELD = "Budget of its run"  # begins the reason of those held here, and of no others


def hold_evaluations() -> Counter[str]:
    """Pause those under way whose run has used its budget, and resume those held whose run is under way within it."""
    done: Counter[str] = Counter()
    for evaluation, why in _concerned():
        try:
            if evaluation.is_live and why:
                evaluation.pause(reason=f"{HELD}: {why}"[:500])
                done["evaluations_held"] += 1
            elif not evaluation.is_live and not why and evaluation.evaluates.run.is_live:
                evaluation.resume(reason="the budget of its run allows it again")
                done["evaluations_resumed"] += 1
        except NotPossible:  # somebody has moved it since it was read
            continue
    return done


def _concerned() -> Iterator[tuple[Run, str]]:
    """Evaluations under way or held, and how their run's budget is used up; of runs that have one, or had when they were held."""
    asking = Run.objects.filter(is_evaluation=True).select_related("evaluates__run", "project", "topic")
    live = asking.running().exclude(evaluates__run__config__budget=None)
    held = asking.filter(state=Run.State.PAUSED, state_reason__startswith=HELD)
    known: dict[int, str] = {}
    for evaluation in (live | held).order_by("pk"):
        run = evaluation.evaluates.run
        if run.pk not in known:
            known[run.pk] = used_up(run)
        yield evaluation, known[run.pk]
