"""End episodes, and record the rewards of their rollouts. A failure is never a number."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.locking import lock_ids, lock_one, lock_rows, unit_of_work
from apps.environments.action_waiters import notify_episodes
from apps.environments.errors import CannotPlay
from apps.environments.judging import incomplete_among, judge_episodes
from apps.environments.models import (
    FAILURES_ALLOWED,
    FIRST_REST_S,
    MAX_OPEN_S,
    Environment,
    Episode,
)
from apps.rollouts.models import Group
from apps.runs.models import Run, after

LEFT = "its group is no longer sampled"


@dataclass(frozen=True)
class Ending:
    """The end of a rollout played in an episode; `failure` says why it has no reward."""

    episode_id: int
    rollout_id: int
    reason: str
    failure: str = ""


@unit_of_work
def end_episode(episode_id: int, reason: str) -> Episode:
    """Close the episode as done.

    An ended episode is not changed. Raises CannotPlay (closed) when it failed.
    """
    return close_episode(_lock_episode(episode_id), Episode.State.DONE, reason)


@unit_of_work
def fail_episode(episode_id: int, reason: str) -> Episode:
    """Close the episode as failed: no reward, and the environment's breaker counts it.

    A failed episode is not changed. Raises CannotPlay (closed).
    """
    return close_episode(_lock_episode(episode_id), Episode.State.FAILED, reason)


@unit_of_work
def abandon(episode_id: int, reason: str) -> Episode:
    """Close the episode as abandoned.

    An abandoned one is not changed. Raises CannotPlay (closed).
    """
    return close_episode(_lock_episode(episode_id), Episode.State.ABANDONED, reason)


def _lock_episode(episode_id: int) -> Episode:
    return lock_one(Episode.objects.filter(pk=episode_id).select_related("environment"))


def close_episode(episode: Episode, state: str, reason: str) -> Episode:
    """Close this locked episode in the given state; one already in that state is not changed.

    Raises CannotPlay (closed) if it ended in another state.
    """
    if episode.is_open:
        return closed(episode, state, reason)
    if episode.state != state:
        raise CannotPlay("closed", f"the episode is {episode.state}: {episode.reason}")
    return episode


def closed(episode: Episode, state: str, reason: str) -> Episode:
    """Close this locked, open episode, and update the environment's breaker."""
    episode.state, episode.reason = state, reason[:300]
    episode.closed_at = episode.heard_at = Now()
    if state == Episode.State.DONE and episode.reward_s:
        wait_s = episode.reward_s
        settle_s = episode.settle_s
        if settle_s is not None and episode.seen.filter(reward__isnull=False).exists():
            wait_s = min(wait_s, settle_s)
        episode.reward_until = after(wait_s)
    episode.save(
        update_fields=["turns", "state", "reason", "closed_at", "heard_at", "reward_until"]
    )
    notify_episodes([episode.pk])
    # An agent environment has many callers: the mistake of one must not suspend the others.
    if state == Episode.State.FAILED and episode.environment.kind != Environment.Kind.AGENT:
        _count_failure(episode.environment, reason)
    elif state == Episode.State.DONE and episode.environment.failures:
        Environment.objects.filter(pk=episode.environment_id, failures__gt=0).update(
            failures=0, open_until=None, open_reason=""
        )
    return episode


def _count_failure(environment: Environment, reason: str) -> None:
    """Count a failure; after several in a row, suspend new groups in the environment.

    The suspension grows with every further failure.
    """
    Environment.objects.filter(pk=environment.pk).update(failures=F("failures") + 1)
    environment.refresh_from_db(fields=["failures"])
    beyond = environment.failures - FAILURES_ALLOWED
    if beyond >= 0:
        pause_s = min(MAX_OPEN_S, FIRST_REST_S * 2 ** min(beyond, 10))
        until = timezone.now() + timedelta(seconds=pause_s)
        Environment.objects.filter(pk=environment.pk).update(
            open_until=until, open_reason=reason[:300]
        )


def rests(environment: Environment) -> bool:
    """Tell whether the environment's breaker is open now."""
    return Environment.objects.filter(pk=environment.pk, open_until__gt=Now()).exists()


@unit_of_work
def settle_episodes(endings: Sequence[Ending]) -> None:
    """Close the episodes of rollouts that are written now, and record each reward once.

    Both happen in the same transaction. If rewards may come later, the record waits for them.
    """
    if not endings:
        return
    ended_episodes = []
    of = {ending.episode_id: ending for ending in endings}
    for episode in lock_rows(Episode.objects.filter(pk__in=of).select_related("environment")):
        ending = of[episode.pk]
        if episode.is_open:
            # The environment has not failed, or the episode would be closed. The fault is on our
            # side, and the breaker does not count it.
            state = Episode.State.ABANDONED if ending.failure else Episode.State.DONE
            closed(episode, state, ending.failure or ending.reason)
        ended_episodes.append(episode)
    _judge_or_wait(
        ended_episodes, {ending.episode_id: ending.failure for ending in endings if ending.failure}
    )


def _judge_or_wait(episodes: Sequence[Episode], failures: Mapping[int, str]) -> None:
    """Record complete rewards; the other episodes wait, and their groups with them."""
    awaiting_reward = [
        episode
        for episode in episodes
        if episode.reward_until is not None and episode.pk not in failures
    ]
    incomplete_ids = incomplete_among(awaiting_reward)
    judge_episodes([episode for episode in episodes if episode.pk not in incomplete_ids], failures)
    if incomplete_ids:
        rollouts = [
            episode.rollout_id for episode in awaiting_reward if episode.pk in incomplete_ids
        ]
        Group.objects.filter(rollouts__in=rollouts).update(awaits_rewards=True)


def fail_overdue(
    environment: Environment, episode_ids: Sequence[int], silence_s: float | None = None
) -> None:
    """Fail those of these episodes that exceed the time limit of an episode or of a turn.

    `silence_s` replaces the environment's `turn_s`. In an environment that we call, the caller
    detects the silence. An agent that stops calling has broken nothing: its episode ends. A person
    who plays by hand has `person_s` for each answer, and otherwise only the limit of turns.
    """
    now = timezone.now()
    open_episodes = Episode.objects.open().filter(pk__in=episode_ids)
    by_programs = open_episodes.filter(by_hand=False)
    ends = [
        (
            by_programs.filter(begun_at__lt=now - timedelta(seconds=environment.episode_s)),
            "the episode",
            environment.episode_s,
        )
    ]
    if environment.calls_us:
        for players, limit in (
            (by_programs, silence_s or environment.turn_s),
            (open_episodes.filter(by_hand=True), environment.person_s),
        ):
            silent = players.filter(
                state=Episode.State.ENVIRONMENT, moved_at__lt=now - timedelta(seconds=limit)
            )
            ends.append((silent, "its answer", limit))
    for overdue, what, limit in ends:
        for pk in overdue.values_list("pk", flat=True):
            with suppress(CannotPlay):  # the episode ended meanwhile
                if environment.kind == Environment.Kind.AGENT:
                    end_episode(pk, f"the agent sent nothing for {limit:g} s")
                else:
                    fail_episode(pk, f"{what} took longer than {limit:g} s")


@unit_of_work
def close_left() -> int:
    """Abandon open episodes whose rollout or run has ended without them.

    Returns how many.
    """
    orphans = Episode.objects.open().filter(
        ~Q(rollout__group__state=Group.State.SAMPLING) | Q(run__state__in=Run.ENDED)
    )
    ids = lock_ids(orphans.filter(rollout__isnull=False))
    return Episode.objects.filter(pk__in=ids).update(
        state=Episode.State.ABANDONED, reason=LEFT, closed_at=Now()
    )
