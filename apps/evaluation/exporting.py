"""Write a run's evaluations as a file: one row per metric of each evaluated version."""

from collections.abc import Iterator

import pyarrow as arrow
from django.db.models import Q

from apps.evaluation.models import EvaluationResult
from apps.runs.exporting.reading import Batch
from apps.runs.exporting.writing import TIME, table_file
from apps.runs.models import Run

AT_ONCE = 100  # evaluations whose metrics are read together
COLUMNS = {
    "weight_version": arrow.int64(),
    "evaluation": arrow.string(),
    "taskset": arrow.string(),
    "question_set": arrow.string(),
    "measure": arrow.string(),
    "k": arrow.int64(),
    "value": arrow.float64(),
    "low": arrow.float64(),
    "high": arrow.float64(),
    "tasks": arrow.int64(),
    "at": TIME,
}


def evaluations_file(run: Run, form: str) -> Iterator[bytes]:
    """Yield the file of the complete evaluations, in the order in which they were summed up.

    For a run that is an evaluation, the file holds its own metrics.
    """
    return table_file(COLUMNS, _batches(run), form)


def _batches(run: Run) -> Iterator[Batch]:
    after = 0
    results = EvaluationResult.objects.filter(Q(run__evaluates__run=run) | Q(run=run)).order_by(
        "pk"
    )
    fields = (
        "pk",
        "run__evaluates__version",
        "run__slug",
        "run__taskset__slug",
        "run__evaluation_set",
        "metrics__metrics",
    )
    while rows := list(results.filter(pk__gt=after).values_list(*fields, "made_at")[:AT_ONCE]):
        yield [
            (version or 0, *names, measure, int(k), *metrics_at_k, at)
            for _, version, *names, metrics, at in rows
            for measure, of_k in metrics.items()
            for k, metrics_at_k in of_k.items()
        ]
        after = rows[-1][0]
