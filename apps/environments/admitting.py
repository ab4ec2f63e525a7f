"""Limit a service that we call: at most `parallel` episodes are played in it at once.

An episode of a run waits until it is admitted, the oldest first. It keeps its place as long as its
group's lease, or its outside client's session, lives: a process that dies frees its places together
with its work.
"""

from collections.abc import Collection

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, lock_one, unit_of_work
from apps.environments.models import Environment, Episode

State = Episode.State


@unit_of_work
def admit_episodes(environment: Environment, episode_ids: Collection[int]) -> set[int]:
    """Admit as many waiting episodes as there is room for.

    Returns those of these episodes that are admitted now and have not begun.
    """
    room = _lock_environment(environment).parallel - _episodes_inside(environment).count()
    if room > 0:
        # Skip locked episodes: their writer may wait for the environment's row, which is locked
        # here.
        oldest = list(
            _episodes_with_place(environment)
            .filter(state=State.WAITING)
            .order_by("pk")
            .values_list("pk", flat=True)[:room]
        )
        waiting = Episode.objects.filter(
            pk__in=[pk for pk in oldest if pk in episode_ids], state=State.WAITING
        )
        free_ids = lock_ids(waiting, skip_locked=True)
        Episode.objects.filter(pk__in=free_ids).update(
            state=State.ENVIRONMENT, begun_at=Now(), moved_at=Now()
        )
    return set(
        Episode.objects.filter(pk__in=episode_ids, state=State.ENVIRONMENT, turns=0).values_list(
            "pk", flat=True
        )
    )


def others_play(environment: Environment, episode_ids: Collection[int]) -> bool:
    """Tell whether other episodes of ours are being played there.

    They may be the reason that a server is full.
    """
    return _episodes_inside(environment).filter(turns__gt=0).exclude(pk__in=episode_ids).exists()


def has_room(environment: Environment) -> bool:
    """Tell whether one more episode may begin; no other is admitted until the transaction ends."""
    parallel = _lock_environment(environment).parallel
    return _episodes_inside(environment).count() < parallel


def _lock_environment(environment: Environment) -> Environment:
    return lock_one(Environment.objects.filter(pk=environment.pk))


def _episodes_inside(environment: Environment) -> QuerySet[Episode]:
    return _episodes_with_place(environment).filter(state__in=[State.ENVIRONMENT, State.POLICY])


def _episodes_with_place(environment: Environment) -> QuerySet[Episode]:
    """Return the episodes that hold a place, by a live lease or by an outside client's session."""
    leased = Q(rollout__group__lease_until__gte=Now(), rollout__group__fence=F("fence"))
    return environment.episodes.filter(leased | Q(session__isnull=False))
