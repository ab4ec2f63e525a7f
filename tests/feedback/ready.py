"""Groups that are ready for a training step, without rewards."""

from apps.buffer.models import Experience, NewExperience
from apps.rollouts.models import Group


def put_ready(group: Group) -> None:
    """Add an experience for each rollout of the group."""
    Experience.objects.put(
        [
            NewExperience(
                run=group.run_id,
                group=group.pk,
                rollout=rollout.pk,
                kind=Experience.Kind.USUAL,
                reward=1.0,
                advantage=0.5,
                weight_version=0,
            )
            for rollout in group.rollouts.all()
        ]
    )
