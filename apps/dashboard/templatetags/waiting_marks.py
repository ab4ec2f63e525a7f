"""Notices about work that no worker has started yet: how long, what is ahead, what to do."""

from django import template
from django.db.models import Q

from apps.leases.work import LeasedWork
from apps.runs import control_plane
from apps.runs.models import Worker

register = template.Library()


@register.inclusion_tag("dashboard/_waiting_for_worker.html")
def waiting_for_worker(work: LeasedWork) -> dict:
    """Return the notice for a waiting import or export job.

    The control worker processes one at a time, the oldest first.
    """
    before = type(work).objects.open().filter(pk__lt=work.pk)
    if getattr(work, "needs_preview", False):  # previews do not wait for imports
        before = before.filter(Q(preview__isnull=True))
    return {"work": work, "ahead": before.count(), "plane": control_plane.read_control_plane()}


@register.inclusion_tag("dashboard/_waiting_for_scorer.html")
def waiting_for_scorer(work: LeasedWork, goes_first: bool = False) -> dict:
    """Return the notice for replies to be scored.

    Scorers process the oldest first, when no live run needs them, unless it `goes_first`.
    """
    ahead = type(work).objects.open().filter(pk__lt=work.pk).count()
    scorers = Worker.objects.filter(role=Worker.Role.SCORER, stopped_at=None)
    is_served = any(not scorer.is_silent and not scorer.takes_nothing for scorer in scorers[:100])
    return {"work": work, "ahead": ahead, "is_served": is_served, "goes_first": goes_first}
