"""What holds of episodes at every moment, each a question whose right answer is "none"."""

import math
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from apps.environments.models import Episode
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout

SHOWN = 20


def episodes_end_with_their_rollouts() -> Iterator[str]:
    """No episode is open whose rollout is written."""
    for episode in Episode.objects.open().filter(rollout__isnull=False).exclude(rollout__state=Rollout.State.SAMPLING)[:SHOWN]:
        yield f"{episode}: {episode.state}, and rollout {episode.rollout_id} is written"


def episodes_end_with_their_sessions() -> Iterator[str]:
    """No episode is open whose outside client has left."""
    for episode in Episode.objects.open().filter(session__closed_at__isnull=False).select_related("session")[:SHOWN]:
        yield f"{episode}: {episode.state}, and {episode.session} has ended: {episode.session.reason}"


def what_was_played_was_rewarded_once() -> Iterator[str]:
    """A written rollout that was played has one word of its environment: the sum of what its turns earned, or why there is none.

    Where rewards may come later it waits for that, and its group with it, but not for longer than was said.
    """
    written = Q(rollout__state__in=[Rollout.State.FINISHED, Rollout.State.FAILED])
    last = (
        Episode.objects.filter(written)
        .order_by("rollout", "-fence")
        .distinct("rollout")
        .select_related("environment", "rollout__group")
    )
    words = Reward.objects.filter(source=Reward.Source.ENVIRONMENT, by=None)
    said = {(word.rollout_id, word.scorer): word for word in words}
    for episode in last:
        word = said.get((episode.rollout_id, episode.environment.name))
        if word is None and episode.reward_until is not None:
            yield from _waits_in_vain(episode)
        elif word is None:
            yield f"{episode}: rollout {episode.rollout_id} is written without its reward"
        elif word.value is not None and not math.isclose(word.value, math.fsum(_earned(episode)), abs_tol=1e-9):
            yield f"{episode}: its turns earned {math.fsum(_earned(episode)):g}, its rollout {word.value:g}"
        elif word.value is not None and episode.state != Episode.State.DONE:
            yield f"{episode}: {episode.state}, and rewarded"


def _waits_in_vain(episode: Episode) -> Iterator[str]:
    group = episode.rollout.group
    if group.state in (Group.State.SAMPLING, Group.State.SCORING) and not group.awaits_rewards:
        yield f"{episode}: waits for its rewards, and group {group.pk} does not"
    if timezone.now() - episode.reward_until > timedelta(seconds=2 * settings.LEASE_SECONDS):
        yield f"{episode}: its rewards could come until {episode.reward_until}, and nobody has judged it since"


def _earned(episode: Episode) -> list[float]:
    return list(episode.seen.filter(reward__isnull=False).values_list("reward", flat=True))
