"""What must hold of runs' own rows, for `manage.py reconcile`: each function yields one sentence per violation."""

from collections.abc import Iterator

from django.db.models import F, Q, Subquery

from apps.runs.models import Metric, Run
from apps.runs.models.steps import NOW


def runs_show_their_newest_figures() -> Iterator[str]:
    """What lists sort by is what the newest update recorded."""
    for name, field in NOW.items():
        rows = Run.objects.annotate(newest=Subquery(Metric.newest(name)))
        same = Q(newest__isnull=True, **{f"{field}__isnull": True}) | Q(newest=F(field))
        for run in rows.exclude(same).select_related("project").order_by("pk"):
            yield f"{run.address} shows {name} {getattr(run, field)}, its newest update recorded {run.newest}"
