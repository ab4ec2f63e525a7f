"""What must be so of what operators did, as a question over the rows whose right answer is "none"."""

from collections.abc import Iterator

from django.db.models import Count, F, Sum, Value
from django.db.models.functions import StrIndex, Substr

from apps.buffer.models import StepItem
from apps.pipelines.models import CutRollout, OperatorCount
from apps.rollouts.models import LeftOut

SHOWN = 20


def what_operators_left_out_is_on_record() -> Iterator[str]:
    """An operator was given what it kept and what it left out: rollouts, tasks and rows of updates, each with its reason."""
    counted = OperatorCount.objects.values_list("run__slug", "run", "operator").annotate(n=Sum(F("given") - F("kept")))
    told = {(run, operator): (slug, n) for slug, run, operator, n in counted.order_by("run", "operator")}
    there: dict[tuple[int, str], int] = {}
    for rows in (
        CutRollout.objects.filter(is_silent=False).values_list("run", "operator"),
        _by_operator(LeftOut.objects.filter(by=None), "reason").values_list("run", "operator"),
        _by_operator(StepItem.objects.exclude(left_out=""), "left_out").values_list("step__run", "operator"),
    ):
        for run, operator, n in rows.annotate(n=Count("pk")).order_by():
            there[run, operator] = there.get((run, operator), 0) + n
    wrong = [(slug, operator, n, there.get((run, operator), 0)) for (run, operator), (slug, n) in told.items()]
    for slug, operator, n, rows in [one for one in wrong if one[2] != one[3]][:SHOWN]:
        yield f"{slug}: {operator} left out {n} by the count, {rows} by the rows"


def _by_operator(rows, field: str):
    """With the operator that a reason begins with."""
    return rows.annotate(operator=Substr(field, 1, StrIndex(field, Value(":")) - 1))
