"""What `reconcile` asks of sets of rewards that were made again."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, OuterRef, Q

from apps.rewards.models import Rescored, RescoredGroup, Rescoring
from apps.rollouts.models import Rollout

SHOWN = 20


def sets_made_again_are_whole() -> Iterator[str]:
    """A rescoring counts the groups it has judged, is done with all of them, and says of each rollout what became of it."""
    judged = Count("items", filter=Q(items__done_at__isnull=False))
    for one in Rescoring.objects.annotate(judged=judged).exclude(done=F("judged"))[:SHOWN]:
        yield f"{one}: counts {one.done} groups, {one.judged} are judged"
    for one in Rescoring.objects.filter(state=Rescoring.State.DONE).exclude(done=F("groups"))[:SHOWN]:
        yield f"{one}: is done with {one.done} of {one.groups} groups"
    told = Rescored.objects.filter(rescoring=OuterRef(OuterRef("rescoring")), rollout=OuterRef("pk"))
    finished = Rollout.objects.filter(group=OuterRef("group"), state=Rollout.State.FINISHED)
    untold = finished.exclude(origin=Rollout.Origin.SYNTHETIC).filter(~Exists(told))
    for item in RescoredGroup.objects.filter(Exists(untold), done_at__isnull=False)[:SHOWN]:
        yield f"{item}: a rollout of it was not told what became of it"
