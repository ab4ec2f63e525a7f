"""What a page says of work that no worker has taken yet: for how long, what is ahead of it, and
what to do.
"""

from django import template

from apps.runs import control_plane
from apps.runs.models import Worker
from apps.tasksets.leasing import LeasedWork

register = template.Library()


@register.inclusion_tag("dashboard/_waiting_for_worker.html")
def waiting_for_worker(work: LeasedWork) -> dict:
    """Of an import or an order that waits: the control worker takes up the oldest, one after the
    other.
    """
    before = type(work).objects.open().filter(pk__lt=work.pk)
    if getattr(work, "needs_preview", False):  # previews wait for no imports
        before = before.filter(preview__isnull=True)
    return {"work": work, "ahead": before.count(), "plane": control_plane.look()}


@register.inclusion_tag("dashboard/_waiting_for_scorer.html")
def waiting_for_scorer(work: LeasedWork) -> dict:
    """Of rollouts to be scored again: scorers take up the oldest when no live run needs them."""
    ahead = type(work).objects.open().filter(pk__lt=work.pk).count()
    scorers = Worker.objects.filter(role=Worker.Role.SCORER, stopped_at=None)
    is_served = any(not scorer.is_silent and not scorer.takes_nothing for scorer in scorers[:100])
    return {"work": work, "ahead": ahead, "is_served": is_served}
