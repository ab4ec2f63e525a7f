"""What holds of costs and alerts at every moment: questions whose right answer is "none" (manage.py reconcile)."""

from collections.abc import Iterator

from django.db.models import Count, Exists, OuterRef, Q, Sum

from apps.alerts.models import Alert
from apps.buffer.models import Recorded, Seed
from apps.environments.models import Episode
from apps.rollouts.models import Rollout
from apps.runs.costs import SAMPLED
from apps.runs.models import Run, Usage

SHOWN = 20


def what_was_sampled_is_counted() -> Iterator[str]:
    """A run's sampled tokens are those of its finished replies, without what was copied or came in a file."""
    counted = dict(Usage.objects.filter(kind=SAMPLED).order_by().values_list("run").annotate(n=Sum("amount")))
    copied, seeded = (model.objects.filter(group=OuterRef("group")) for model in (Recorded, Seed))
    imported = Episode.objects.filter(rollout=OuterRef("pk")).exclude(origin={})
    own = Rollout.objects.filter(state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)
    own = own.filter(~Exists(copied), ~Exists(imported), ~Exists(seeded)).order_by()
    said = dict(own.values_list("run").annotate(n=Sum("completion_tokens")))
    names = dict(Run.objects.values_list("pk", "slug"))
    for run in sorted(counted.keys() | said.keys()):
        if round(counted.get(run, 0)) != said.get(run, 0):
            yield f"{names[run]}: {counted.get(run, 0):,.0f} sampled tokens are counted, its rollouts have {said.get(run, 0):,}"


def alerts_left_their_history() -> Iterator[str]:
    """Each was opened once on record, and closed once where it is closed."""
    opened, closed = (Count("entries", filter=Q(entries__what=what)) for what in ("opened", "closed"))
    told = Alert.objects.annotate(opened=opened, closed=closed).order_by("pk")
    wrong = told.exclude(Q(opened=1, closed=0, closed_at=None) | Q(opened=1, closed=1, closed_at__isnull=False))
    for alert in wrong[:SHOWN]:
        yield f"alert {alert.pk} ({alert}): on record it was opened {alert.opened} times and closed {alert.closed} times"
