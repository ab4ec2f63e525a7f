"""Integrity checks of episodes; a sound database yields no violations."""

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
    """Yield open episodes whose rollout is written."""
    for episode in (
        Episode.objects.open()
        .filter(rollout__isnull=False)
        .exclude(rollout__state=Rollout.State.SAMPLING)[:SHOWN]
    ):
        yield f"{episode}: is {episode.state}, but rollout {episode.rollout_id} is finished"


def episodes_end_with_their_sessions() -> Iterator[str]:
    """Yield open episodes whose outside client has left."""
    for episode in (
        Episode.objects.open()
        .filter(session__closed_at__isnull=False)
        .select_related("session")[:SHOWN]
    ):
        yield (
            f"{episode}: is {episode.state}, but {episode.session} was closed: "
            f"{episode.session.reason}"
        )


def episodes_are_rewarded_once() -> Iterator[str]:
    """Yield violations of rewards from environments.

    A written rollout that was played has one reward of its environment, the sum of its turns', or
    the reason for none. Where rewards may come later it may wait, and its group with it, but not
    longer than allowed.
    """
    written = Q(rollout__state__in=[Rollout.State.FINISHED, Rollout.State.FAILED])
    last = (
        Episode.objects.filter(written)
        .order_by("rollout", "-fence")
        .distinct("rollout")
        .select_related("environment", "rollout__group")
    )
    rewards = Reward.objects.filter(source=Reward.Source.ENVIRONMENT, by=None)
    by_scorer = {(reward.rollout_id, reward.scorer): reward for reward in rewards}
    for episode in last:
        reward = by_scorer.get((episode.required_rollout.pk, episode.environment.name))
        if reward is None and episode.reward_until is not None:
            yield from _reward_wait_problems(episode)
        elif reward is None:
            yield (
                f"{episode}: rollout {episode.rollout_id} is finished, but has no reward of "
                "the episode"
            )
        elif reward.value is not None and not math.isclose(
            reward.value, math.fsum(_rewards(episode)), abs_tol=1e-9
        ):
            yield (
                f"{episode}: the rewards of its turns sum to {math.fsum(_rewards(episode)):g}, "
                f"but its rollout has {reward.value:g}"
            )
        elif reward.value is not None and episode.state != Episode.State.DONE:
            yield f"{episode}: is {episode.state}, but has a reward"


def _reward_wait_problems(episode: Episode) -> Iterator[str]:
    group = episode.required_rollout.group
    if group.state in (Group.State.SAMPLING, Group.State.SCORING) and not group.awaits_rewards:
        yield f"{episode}: waits for rewards, but group {group.pk} does not"
    assert episode.reward_until is not None
    if timezone.now() - episode.reward_until > timedelta(seconds=2 * settings.LEASE_SECONDS):
        yield (
            f"{episode}: the deadline for rewards was {episode.reward_until}, but it has not "
            "been judged since"
        )


def _rewards(episode: Episode) -> list[float]:
    turn_rewards = episode.seen.values_list("reward", flat=True)
    return [reward for reward in turn_rewards if reward is not None]
