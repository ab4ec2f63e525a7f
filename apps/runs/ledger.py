"""Invariants of runs' own rows, for `manage.py reconcile`: one sentence for each violation."""

from collections.abc import Iterator

from django.db.models import F, Q, Subquery

from apps.runs.models import Metric, Run
from apps.runs.models.steps import NOW


def runs_show_their_latest_metrics() -> Iterator[str]:
    """Check that the metrics by which lists sort are those of the newest step."""
    for name, field in NOW.items():
        rows = Run.objects.annotate(newest=Subquery(Metric.newest(name)))
        is_current = Q(newest__isnull=True, **{f"{field}__isnull": True}) | Q(newest=F(field))
        for run in rows.exclude(is_current).select_related("project").order_by("pk"):
            yield (
                f"{run.address}: shows {name} {getattr(run, field)}, but its latest step "
                f"recorded {run.newest}"
            )
