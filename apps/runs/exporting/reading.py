"""Rows of a run's metrics, events and audit entries, read by key in separate queries.

No transaction stays open between batches.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import connection
from django.db.models import Max, OuterRef, QuerySet, Subquery

from apps.accounts.models import AuditEntry
from apps.runs.models import Metric, Run, TrainStep
from apps.streaming.models import Event

ROWS_AT_ONCE = 10_000
Batch = list[tuple[Any, ...]]  # rows, each as long as there are columns
NAMES = """
    WITH RECURSIVE named AS (
        (SELECT name FROM runs_metric WHERE run_id = %(run)s ORDER BY name LIMIT 1)
        UNION ALL
        SELECT (SELECT name FROM runs_metric
            WHERE run_id = %(run)s AND name > named.name ORDER BY name LIMIT 1)
        FROM named WHERE named.name IS NOT NULL)
    SELECT name FROM named WHERE name IS NOT NULL"""


@dataclass(frozen=True)
class RunMetrics:
    """Metrics of a run: of the steps above `after`, with these names (all if there are none)."""

    run: Run
    after: int = 0
    only: tuple[str, ...] = ()

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the metrics, sorted.

        One query seeks the next name in the index each time: a DISTINCT would read every row.
        """
        if self.only:
            return sorted(set(self.only))
        with connection.cursor() as cursor:
            cursor.execute(NAMES, {"run": self.run.pk})
            return [name for (name,) in cursor.fetchall()]

    @property
    def last_step(self) -> int:
        """Return the last step that has a metric, or 0. One seek of the index for each name."""
        newest = (
            self.rows.filter(name=name).aggregate(last=Max("step"))["last"] or 0
            for name in self.names
        )
        return max(newest, default=0)

    @property
    def rows(self) -> QuerySet[Metric]:
        return Metric.objects.filter(run=self.run, step__gt=self.after)

    def long(self) -> Iterator[Batch]:
        """Yield batches of (name, step, weight version, at, value), ordered by name and step."""
        for name in self.names:
            rows = self.rows.filter(name=name).annotate(version=_version()).order_by("step")
            last = self.after
            fields = ("name", "step", "version", "at", "value")
            while batch := list(rows.filter(step__gt=last).values_list(*fields)[:ROWS_AT_ONCE]):
                yield batch
                last = batch[-1][1]

    def wide(self) -> Iterator[Batch]:
        """Yield batches of (step, weight version, at, one value or None for each of `names`).

        They are ordered by step.
        """
        steps = max(1, ROWS_AT_ONCE // max(1, len(self.names)))
        end = self.last_step
        for first in range(self.after, end, steps):
            if batch := self._of_steps(first, first + steps):
                yield batch

    def _of_steps(self, above: int, until: int) -> Batch:
        versions = TrainStep.objects.filter(
            run=self.run, number__gt=above, number__lte=until
        ).values_list("number", "version")
        version_of = dict(versions)
        at_of: dict[int, datetime] = {}
        values: dict[int, dict[str, float]] = defaultdict(dict)
        rows = self.rows.filter(name__in=self.names, step__gt=above, step__lte=until)
        for name, step, at, value in rows.values_list("name", "step", "at", "value"):
            values[step][name] = value
            at_of[step] = min(at, at_of.get(step, at))
        return [
            (
                step,
                version_of.get(step),
                at_of[step],
                *(values[step].get(name) for name in self.names),
            )
            for step in sorted(values)
        ]


def _version() -> Subquery:
    """Return the trainer's weight version when the step's batch was taken."""
    return Subquery(
        TrainStep.objects.filter(run=OuterRef("run"), number=OuterRef("step")).values("version")
    )


def iterate_events(run: Run, after: int = 0) -> Iterator[Event]:
    """Yield the run's events above this sequence number, in their order."""
    rows = Event.objects.filter(topic=run.topic_id).order_by("sequence")
    while some := list(rows.filter(sequence__gt=after)[:ROWS_AT_ONCE]):
        yield from some
        after = some[-1].sequence


def audit_entries(run: Run, after: int = 0) -> Iterator[AuditEntry]:
    """Yield the audit entries of the run's project with an id above `after`, the oldest first."""
    rows = AuditEntry.objects.filter(project=run.project_id).order_by("pk")
    while some := list(rows.filter(pk__gt=after)[:ROWS_AT_ONCE]):
        yield from some
        after = some[-1].pk
