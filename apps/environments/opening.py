"""An episode for each attempt at a rollout, and who plays it."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.locking import lock_first, lock_ids, lock_one, unit_of_work
from apps.accounts.models import User
from apps.environments.admitting import has_room
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment, Episode, PlaySession
from apps.environments.playing import plays
from apps.rollouts.models import Group, Rollout
from apps.rollouts.serving import FIRST_FENCE, NoRoom, open_for_caller
from apps.runs.config import EnvironmentChoice
from apps.runs.models import Run
from apps.tasksets.rows import TaskRow

TAKEN_OVER = "another explorer makes the next attempt"


@unit_of_work
def open_episodes(
    environment: Environment, choice: EnvironmentChoice, groups: Sequence[Group], rollouts: Sequence[Rollout]
) -> dict[int, Episode]:
    """Episodes for these rollouts of claimed groups, by rollout id; those of earlier attempts are abandoned.

    Called again for the same claim it finds the episodes that are there.
    """
    group_of = {group.pk: group for group in groups}
    wanted = [_episode(environment, choice, group_of[rollout.group_id], rollout) for rollout in rollouts]
    earlier = Q(pk__in=[])
    for group in groups:
        earlier |= Q(rollout__group=group, fence__lt=group.fence)
    ids = lock_ids(Episode.objects.open().filter(earlier))
    Episode.objects.filter(pk__in=ids).update(state=Episode.State.ABANDONED, reason=TAKEN_OVER, closed_at=Now())
    # An attempt that was over and not written has no rollout any more that would wait for its rewards.
    over = Episode.objects.filter(earlier, rollout__in=rollouts, reward_until__isnull=False)
    ids = lock_ids(over)
    Episode.objects.filter(pk__in=ids).update(reward_until=None)
    Episode.objects.bulk_create(wanted, ignore_conflicts=True)
    fences = {group.pk: group.fence for group in groups}
    there = Episode.objects.filter(rollout__in=rollouts).select_related("rollout")
    return {episode.rollout_id: episode for episode in there if episode.fence == fences[episode.rollout.group_id]}


def _episode(environment: Environment, choice: EnvironmentChoice, group: Group, rollout: Rollout) -> Episode:
    task = group.task
    waits = environment.calls_us or environment.is_service
    return Episode(
        environment=environment, run_id=group.run_id, rollout=rollout, fence=group.fence, seed=seed_of(task.meta, task.index),
        options={**environment.options, **choice.options, **task.meta.get("options", {})},
        turn_limit=min(environment.turn_limit, choice.turns or environment.turn_limit),
        reward_s=environment.reward_s if choice.reward_s is None else choice.reward_s,
        state=Episode.State.WAITING if waits else Episode.State.ENVIRONMENT,
        begun_at=None if waits else Now(),
    )  # fmt: skip


@transaction.atomic
def open_for(session: PlaySession, environment: Environment, seed: int, options: dict) -> Episode:
    """An episode in which this session's client acts. Nobody trains on it. Raises NoRoom in a service that is full of ours."""
    if environment.is_service and not has_room(environment):
        raise NoRoom(f"As many episodes are played as may be at once (parallel: {environment.parallel}).")
    return Episode.objects.create(
        environment=environment, session=session, seed=seed, options={**environment.options, **options},
        turn_limit=environment.turn_limit, state=Episode.State.WAITING if environment.calls_us else Episode.State.ENVIRONMENT,
        begun_at=None if environment.calls_us else Now(),
    )  # fmt: skip


def seed_of(meta: dict, index: int) -> int:
    """The task's own seed, or its place in the taskset."""
    seed = meta.get("seed", index)
    return seed if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63 else index


@unit_of_work
def take(
    environment: Environment, client: User, key: str = "", run_id: int | None = None, episode_id: int | None = None,
    outside: bool = False, by_hand: bool = False,
) -> Episode | None:  # fmt: skip
    """The oldest episode (of this run; or this one) that nobody plays, for this client from now on; None when there is none, or no
    room.

    `key`: the client's own name for it; the same again is the same episode of this run, or without one of a run that has not
    ended. `outside`: those too in which an outside client acts,
    which have no run and no task. `by_hand`: a person plays it, in a person's time. Raises CannotPlay when another client used it.
    """
    if key and (known := _named(environment, client, key, run_id)):  # as at each turn but the first: others need not wait for it
        return known
    lock_one(Environment.objects.filter(pk=environment.pk))  # so that `parallel` and `key` hold
    if key and (known := _named(environment, client, key, run_id)):
        return known
    if plays(environment) >= environment.parallel:
        return None
    acts = Q(run__state=Run.State.RUNNING)
    if outside:
        acts |= Q(run=None, session__closed_at=None)
    waiting = environment.episodes.filter(acts, state=Episode.State.WAITING).order_by("pk")
    if key:  # a run has one episode of a name
        taken = environment.episodes.filter(key=key, run__isnull=False).values("run")
        waiting = waiting.exclude(run__in=taken)
    if run_id is not None:
        waiting = waiting.filter(run=run_id)
    if episode_id is not None:
        waiting = waiting.filter(pk=episode_id)
    episode = lock_first(waiting, skip_locked=True)
    if episode is None:
        return None
    episode.client, episode.key, episode.by_hand, episode.state = client, key, by_hand, Episode.State.ENVIRONMENT
    episode.begun_at = episode.moved_at = episode.heard_at = Now()
    episode.save(update_fields=["client", "key", "by_hand", "state", "begun_at", "moved_at", "heard_at"])
    episode.refresh_from_db()
    return episode


def _named(environment: Environment, client: User, key: str, run_id: int | None) -> Episode | None:
    """The episode of this name. Names are a run's own: the next run may use them again."""
    named = environment.episodes.filter(key=key).order_by("-pk")
    of_run = named.exclude(run__state__in=Run.ENDED) if run_id is None else named.filter(run=run_id)
    known = of_run.first()
    if known is not None and known.client_id != client.pk:
        raise CannotPlay("used_key", "key: another client has an episode of this name; choose another")
    return known


@unit_of_work
def open_for_agent(environment: Environment, client: User, key: str, run: Run, asked: TaskRow) -> Episode:
    """The episode of this name, or a new one in a group of its own, whose task is what the agent asks of this run that serves.

    Raises CannotPlay when another client used the name, NoRoom with the reason.
    """
    if key and (known := _named(environment, client, key, run.pk)):
        return known
    before = transaction.savepoint()
    lock_one(Environment.objects.filter(pk=environment.pk))  # so that `parallel` and `key` hold
    if key and (known := _named(environment, client, key, run.pk)):
        transaction.savepoint_rollback(before)  # unlocks: episodes are locked before environments
        return known
    if plays(environment) >= environment.parallel:
        raise NoRoom(f"As many episodes are played as may be at once (parallel: {environment.parallel}).")
    rollout, plan = open_for_caller(run, asked), run.settings
    return Episode.objects.create(
        environment=environment, run=run, rollout=rollout, fence=FIRST_FENCE, client=client, key=key, seed=rollout.group.task.index,
        options={**environment.options, **plan.environment.options},
        turn_limit=min(environment.turn_limit, plan.environment.turns or environment.turn_limit), reward_s=plan.serve.feedback_s,
        settle_s=plan.serve.settle_s,
        state=Episode.State.ENVIRONMENT, begun_at=Now(), heard_at=Now(),
    )  # fmt: skip
