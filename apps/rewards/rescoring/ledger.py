"""Invariants of rescorings, for `manage.py reconcile`."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, OuterRef, Q

from apps.rewards.models import Rescored, RescoredGroup, Rescoring
from apps.rollouts.models import Rollout

SHOWN = 20


def rescorings_are_complete() -> Iterator[str]:
    """Check that rescorings count their judged groups and record the fate of each rollout."""
    judged = Count("items", filter=Q(items__done_at__isnull=False))
    for rescoring in Rescoring.objects.annotate(judged=judged).exclude(done=F("judged"))[:SHOWN]:
        counts = f"counts {rescoring.done} groups as done, but {rescoring.judged} are scored"
        yield f"{rescoring}: {counts}"
    done_rescorings = Rescoring.objects.filter(state=Rescoring.State.DONE)
    for ended in done_rescorings.exclude(done=F("groups"))[:SHOWN]:
        yield f"{ended}: marked done with {ended.done} of {ended.groups} groups scored"
    compared = Rescored.objects.filter(
        rescoring=OuterRef(OuterRef("rescoring")), rollout=OuterRef("pk")
    )
    finished = Rollout.objects.filter(group=OuterRef("group"), state=Rollout.State.FINISHED)
    missing = finished.exclude(origin=Rollout.Origin.SYNTHETIC).filter(~Exists(compared))
    for item in RescoredGroup.objects.filter(Exists(missing), done_at__isnull=False)[:SHOWN]:
        yield f"{item}: a rollout has no recorded result"
