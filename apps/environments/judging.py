"""Judge played rollouts: the reward is known at the episode's end, or later if that is allowed.

A done episode with `reward_s` waits so long for its rewards (`Episode.reward_until`), and less if
no more can come: its player has declared the end (`is_final`), or every action has its reward and
rewards cannot be changed. Its group is not scored before (`Group.awaits_rewards`). Later rewards
count as late. A group that has become too old meanwhile is dropped with the reason.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from django.db import transaction
from django.db.models import (
    DateTimeField,
    Exists,
    ExpressionWrapper,
    F,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Value,
)
from django.db.models.functions import Least, Now

from apps.accounts.compiled_queries import compiled_query
from apps.accounts.locking import retrying, rows_to_lock, unit_of_work
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.admission import oldest_allowed
from apps.runs.models import Run, StaleFence
from apps.streaming import worker_notifications

NO_REWARD = "the environment gave no reward"
AT_ONCE = 200
WORD = Exists(
    Reward.objects.filter(
        rollout=OuterRef("rollout"), scorer=OuterRef("environment__name"), by=None
    )
)
WAITING = Episode.objects.filter(rollout__group=OuterRef("pk"), reward_until__isnull=False)


def judged_among(episode_ids: Iterable[int]) -> set[int]:
    """Return the episodes whose rollout has its reward, or whose time for rewards is over.

    Further rewards for them are late.
    """
    return set(
        Episode.objects.filter(Q(reward_until__lte=Now()) | WORD, pk__in=episode_ids).values_list(
            "pk", flat=True
        )
    )


def is_judged(episode: Episode) -> bool:
    """Tell whether a locked episode is judged.

    An open one is not, since closing and judging are one transaction
    (apps.environments.closing.settle_episodes).
    """
    return not episode.is_open and bool(judged_among([episode.pk]))


def judge_episodes(episodes: Sequence[Episode], failures: Mapping[int, str] | None = None) -> None:
    """Write the rewards of these episodes' rollouts, once: the sum over their turns.

    `failures` gives the reason, by episode, if one has no reward. The caller holds the locked
    episodes, whose rollouts are written.
    """
    turns_by_episode = defaultdict(list)
    for turn in EpisodeTurn.objects.filter(
        episode__in=episodes, answered_at__isnull=False
    ).order_by("episode", "number"):
        turns_by_episode[turn.episode_id].append(turn)
    rewards = [
        _build_reward(episode, turns_by_episode[episode.pk], (failures or {}).get(episode.pk, ""))
        for episode in episodes
    ]
    for episode, reward in zip(episodes, rewards, strict=True):
        if reward.reason:
            unrewarded_turns = EpisodeTurn.objects.filter(
                episode=episode, answered_at__isnull=False, reward=None
            )
            unrewarded_turns.update(reason=reward.reason)
    Reward.objects.bulk_create(rewards, ignore_conflicts=True)
    Episode.objects.filter(
        pk__in=[episode.pk for episode in episodes], reward_until__isnull=False
    ).update(reward_until=None)


def _build_reward(episode: Episode, turns: Sequence[EpisodeTurn], failure: str) -> Reward:
    turn_rewards = [turn.reward for turn in turns]
    known_rewards = [value for value in turn_rewards if value is not None]
    within = f" within {episode.reward_s:g} s of its end" if episode.reward_s else ""
    reason = failure or ("" if known_rewards else NO_REWARD + within)
    assert episode.rollout_id is not None  # an outside client's play is not judged
    return Reward(
        rollout_id=episode.rollout_id,
        source=Reward.Source.ENVIRONMENT,
        scorer=episode.environment.name,
        value=None if reason else math.fsum(known_rewards),
        reason=reason[:300],
        details={
            "episode": episode.pk,
            "turns": len(turn_rewards),
            "rewards": turn_rewards,
            "ended": episode.reason,
        },
    )


# -- waiting for later rewards


def incomplete_among(episodes: Sequence[Episode]) -> set[int]:
    """Return the episodes that may still get feedback or rewards.

    An agent's feedback may be changed until it is called final; any other reward is given once.
    """
    unrewarded_turns = EpisodeTurn.objects.filter(
        episode__in=episodes, answered_at__isnull=False, reward=None
    )
    incomplete_ids = set(unrewarded_turns.values_list("episode", flat=True))
    kind = Environment.Kind.AGENT
    return {
        episode.pk
        for episode in episodes
        if not episode.is_final
        and (episode.environment.kind == kind or episode.pk in incomplete_ids)
    }


def judge_complete_episodes(episodes: Sequence[Episode], final: Iterable[int] = ()) -> None:
    """Judge those of these newly rewarded episodes that are complete; those in `final` get no more.

    The caller holds the locked episodes. If a rollout is not written yet, it is judged when it is.
    """
    final = set(final)
    for episode in episodes:
        if episode.pk in final and not episode.is_final:
            episode.is_final = True
            episode.save(update_fields=["is_final"])
    awaiting_reward = [episode for episode in episodes if episode.reward_until is not None]
    if not awaiting_reward:
        return
    _set_reward_deadline([episode.pk for episode in awaiting_reward])
    incomplete_ids = incomplete_among(awaiting_reward)
    written = Rollout.objects.filter(
        pk__in=[episode.rollout_id for episode in awaiting_reward]
    ).exclude(state=Rollout.State.SAMPLING)
    written_ids = set(written.values_list("pk", flat=True))
    if ready := [
        episode
        for episode in awaiting_reward
        if episode.pk not in incomplete_ids and episode.rollout_id in written_ids
    ]:
        judge_episodes(ready)
        transaction.on_commit(lambda: worker_notifications.notify_workers("score"), robust=True)


def _set_reward_deadline(episode_ids: Sequence[int]) -> None:
    """Limit how long the rewards of these episodes may be changed: `settle_s`, within `reward_s`.

    A time that is over is not extended.
    """
    paid = EpisodeTurn.objects.filter(episode=OuterRef("pk"), reward__isnull=False)
    open_for_words = Episode.objects.filter(
        Exists(paid), pk__in=episode_ids, settle_s__isnull=False, reward_until__gt=Now()
    )
    second = Value(timedelta(seconds=1))
    until = Least(F("closed_at") + F("reward_s") * second, Now() + F("settle_s") * second)
    open_for_words.update(reward_until=ExpressionWrapper(until, DateTimeField()))


@retrying
def send_on() -> int:
    """Judge overdue episodes, and pass on the groups that wait for no more rewards.

    Returns their number.
    """
    _drop_stale()
    _judge_due()
    with transaction.atomic():
        ids = [group.pk for group in _lock_ready()]
        return _ready().filter(pk__in=ids).update(awaits_rewards=False) if ids else 0


def _ready() -> QuerySet[Group]:
    return Group.objects.filter(~Exists(WAITING), awaits_rewards=True, state=Group.State.SCORING)


@compiled_query
def _lock_ready() -> QuerySet[Group]:
    return rows_to_lock(_ready().only("pk"), skip_locked=True)


@unit_of_work
def _judge_due() -> None:
    """Judge overdue episodes; rollouts of closed groups keep their rewards too."""
    if overdue := _lock_overdue():
        judge_episodes(overdue)


@compiled_query
def _lock_overdue() -> QuerySet[Episode]:
    over = Q(reward_until__lte=Now()) | Q(
        reward_until__isnull=False, rollout__group__state__in=Group.CLOSED
    )
    end_states = [Rollout.State.FINISHED, Rollout.State.FAILED]
    overdue = Episode.objects.filter(over, rollout__state__in=end_states).order_by("pk")
    return rows_to_lock(overdue.select_related("environment")[:AT_ONCE], skip_locked=True)


def _groups_awaiting_rewards() -> QuerySet[Group]:
    return Group.objects.filter(awaits_rewards=True, state=Group.State.SCORING, answer_only=False)


@compiled_query
def _runs_with_waiting() -> QuerySet[Run]:
    return Run.objects.running().filter(pk__in=_groups_awaiting_rewards().values("run"))


def _drop_stale() -> None:
    """Drop waiting groups that are too old for the trainer, whatever rewards they may still get."""
    for run in _runs_with_waiting():
        oldest = oldest_allowed(run.published_version, run.settings.max_staleness)
        for group in (
            _groups_awaiting_rewards()
            .filter(run=run)
            .annotate(version=Min("rollouts__first_version"))
            .filter(version__lt=oldest)
        ):
            with suppress(StaleFence):  # another process passed it on meanwhile
                group.drop(
                    f"stale: it waited for its rewards until it was older than version {oldest}"
                )
