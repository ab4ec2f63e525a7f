"""What must hold of runs' own rows, for `manage.py reconcile`: each function yields one sentence per violation."""

from collections.abc import Iterator

from django.db.models import F, Q, Subquery

from apps.runs.models import Metric, Run
from apps.runs.models.steps import REWARD


def runs_show_their_newest_reward() -> Iterator[str]:
    """What lists sort by is what the newest update recorded."""
    rows = Run.objects.annotate(newest_reward=Subquery(Metric.newest(REWARD)))
    same = Q(reward_now__isnull=True, newest_reward__isnull=True) | Q(reward_now=F("newest_reward"))
    for run in rows.exclude(same).select_related("project").order_by("pk"):
        yield f"{run.address} shows reward {run.reward_now}, its newest update recorded {run.newest_reward}"
