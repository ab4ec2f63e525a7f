"""Integrity checks of the records of operators; a sound database yields no violations."""

from collections.abc import Iterator

from django.db.models import Count, F, QuerySet, Sum, Value
from django.db.models.functions import StrIndex, Substr

from apps.buffer.models import StepItem
from apps.pipelines.models import CutRollout, OperatorCount
from apps.rollouts.excluded_tasks import LeftOut

SHOWN = 20


def operator_counts_match_the_rows() -> Iterator[str]:
    """Yield operators whose recorded number of removed items differs from the rows."""
    counted = OperatorCount.objects.values_list("run__slug", "run", "operator").annotate(
        n=Sum(F("given") - F("kept"))
    )
    counts = {
        (run, operator): (slug, n) for slug, run, operator, n in counted.order_by("run", "operator")
    }
    removed: dict[tuple[int, str], int] = {}
    tables: tuple[QuerySet, ...] = (
        CutRollout.objects.filter(is_silent=False).values_list("run", "operator"),
        LeftOut.objects.exclude(operator="").values_list("run", "operator"),
        _by_operator(StepItem.objects.exclude(left_out="")),
    )
    for table in tables:
        for run, operator, n in table.annotate(n=Count("pk")).order_by():
            removed[run, operator] = removed.get((run, operator), 0) + n
    wrong = [
        (slug, operator, n, removed.get((run, operator), 0))
        for (run, operator), (slug, n) in counts.items()
    ]
    for slug, operator, n, rows in [row for row in wrong if row[2] != row[3]][:SHOWN]:
        yield (
            f"{slug}: {operator} dropped {n} according to its count, {rows} according to the rows"
        )


def _by_operator(items: QuerySet[StepItem]) -> QuerySet:
    """Return the run of each item, and the operator named at the beginning of its reason."""
    with_operator = items.annotate(
        operator=Substr("left_out", 1, StrIndex("left_out", Value(":")) - 1)
    )
    return with_operator.values_list("step__run", "operator")
