"""Open episodes, one for each attempt at a rollout, and assign them to players."""

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
    environment: Environment,
    choice: EnvironmentChoice,
    groups: Sequence[Group],
    rollouts: Sequence[Rollout],
) -> dict[int, Episode]:
    """Return the episodes of these rollouts of claimed groups, by rollout id.

    The episodes of earlier attempts are abandoned. A repeated call for the same claim returns the
    same episodes.
    """
    group_of = {group.pk: group for group in groups}
    episodes = [
        _episode(environment, choice, group_of[rollout.group_id], rollout) for rollout in rollouts
    ]
    earlier = Q(pk__in=[])
    for group in groups:
        earlier |= Q(rollout__group=group, fence__lt=group.fence)
    ids = lock_ids(Episode.objects.open().filter(earlier))
    Episode.objects.filter(pk__in=ids).update(
        state=Episode.State.ABANDONED, reason=TAKEN_OVER, closed_at=Now()
    )
    # An unwritten attempt that is over has no rollout any more that would wait for its rewards.
    over = Episode.objects.filter(earlier, rollout__in=rollouts, reward_until__isnull=False)
    ids = lock_ids(over)
    Episode.objects.filter(pk__in=ids).update(reward_until=None)
    Episode.objects.bulk_create(episodes, ignore_conflicts=True)
    fences = {group.pk: group.fence for group in groups}
    stored = Episode.objects.filter(rollout__in=rollouts).select_related("rollout")
    return {
        episode.required_rollout.pk: episode
        for episode in stored
        if episode.fence == fences[episode.required_rollout.group_id]
    }


def _episode(
    environment: Environment, choice: EnvironmentChoice, group: Group, rollout: Rollout
) -> Episode:
    task = group.task
    waits = environment.calls_us or environment.is_service
    return Episode(
        environment=environment,
        run_id=group.run_id,
        rollout=rollout,
        fence=group.fence,
        seed=find_task_seed(task.meta, task.index),
        options={**environment.options, **choice.options, **task.meta.get("options", {})},
        turn_limit=min(environment.turn_limit, choice.max_turns or environment.turn_limit),
        reward_s=environment.reward_s if choice.reward_s is None else choice.reward_s,
        state=Episode.State.WAITING if waits else Episode.State.ENVIRONMENT,
        begun_at=None if waits else Now(),
    )


@transaction.atomic
def open_for(session: PlaySession, environment: Environment, seed: int, options: dict) -> Episode:
    """Open an episode in which this session's client acts.

    It is not trained on. Raises NoRoom if the service is full.
    """
    if environment.is_service and not has_room(environment):
        raise NoRoom(
            "The maximum number of episodes at a time is reached (parallel: "
            f"{environment.parallel})."
        )
    return Episode.objects.create(
        environment=environment,
        session=session,
        seed=seed,
        options={**environment.options, **options},
        turn_limit=environment.turn_limit,
        state=Episode.State.WAITING if environment.calls_us else Episode.State.ENVIRONMENT,
        begun_at=None if environment.calls_us else Now(),
    )


def find_task_seed(meta: dict, index: int) -> int:
    """Return the task's own seed, or its index in the taskset."""
    seed = meta.get("seed", index)
    return (
        seed
        if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63
        else index
    )


@unit_of_work
def assign_episode(
    environment: Environment,
    client: User,
    key: str = "",
    run_id: int | None = None,
    episode_id: int | None = None,
    outside: bool = False,
    by_hand: bool = False,
) -> Episode | None:
    """Assign the oldest unplayed episode (of this run; or this one) to this client.

    Returns None if there is none, or no room. `key` is the client's own name for it. The same name
    again returns the same episode of this run, or without a run, of a run that has not ended.
    `outside` includes episodes of outside clients, which have no run and no task. `by_hand` means
    that a person plays it, with a person's time limit. Raises CannotPlay if another client used the
    name.
    """
    # As at each later turn, other requests need not wait for this.
    if key and (existing := _find_by_name(environment, client, key, run_id)):
        return existing
    lock_one(Environment.objects.filter(pk=environment.pk))  # so that `parallel` and `key` hold
    if key and (existing := _find_by_name(environment, client, key, run_id)):
        return existing
    if plays(environment) >= environment.parallel:
        return None
    acts = Q(run__state=Run.State.RUNNING)
    if outside:
        acts |= Q(run=None, session__closed_at=None)
    waiting = environment.episodes.filter(acts, state=Episode.State.WAITING).order_by("pk")
    if key:  # within a run a name is unique
        runs_with_key = environment.episodes.filter(key=key, run__isnull=False).values("run")
        waiting = waiting.exclude(run__in=runs_with_key)
    if run_id is not None:
        waiting = waiting.filter(run=run_id)
    if episode_id is not None:
        waiting = waiting.filter(pk=episode_id)
    episode = lock_first(waiting, skip_locked=True)
    if episode is None:
        return None
    episode.client = client
    episode.key = key
    episode.by_hand = by_hand
    episode.state = Episode.State.ENVIRONMENT
    episode.begun_at = episode.moved_at = episode.heard_at = Now()
    episode.save(
        update_fields=["client", "key", "by_hand", "state", "begun_at", "moved_at", "heard_at"]
    )
    episode.refresh_from_db()
    return episode


def _find_by_name(
    environment: Environment, client: User, key: str, run_id: int | None
) -> Episode | None:
    """Return the episode of this name. Names are per run: the next run may use them again."""
    episodes = environment.episodes.filter(key=key).order_by("-pk")
    of_run = (
        episodes.exclude(run__state__in=Run.ENDED)
        if run_id is None
        else episodes.filter(run=run_id)
    )
    episode = of_run.first()
    if episode is not None and episode.client_id != client.pk:
        raise CannotPlay(
            "used_key", "key: another client has an episode with this key; choose another"
        )
    return episode


@unit_of_work
def open_for_agent(
    environment: Environment, client: User, key: str, run: Run, row: TaskRow
) -> Episode:
    """Return the episode of this name, or a new one in its own group for the agent's task.

    Raises CannotPlay when another client used the name, NoRoom with the reason.
    """
    if key and (existing := _find_by_name(environment, client, key, run.pk)):
        return existing
    before = transaction.savepoint()
    lock_one(Environment.objects.filter(pk=environment.pk))  # so that `parallel` and `key` hold
    if key and (existing := _find_by_name(environment, client, key, run.pk)):
        transaction.savepoint_rollback(before)  # unlocks: episodes are locked before environments
        return existing
    if plays(environment) >= environment.parallel:
        raise NoRoom(
            "The maximum number of episodes at a time is reached (parallel: "
            f"{environment.parallel})."
        )
    rollout = open_for_caller(run, row)
    plan = run.settings
    assert plan.environment is not None and plan.serve is not None  # the run serves an agent
    return Episode.objects.create(
        environment=environment,
        run=run,
        rollout=rollout,
        fence=FIRST_FENCE,
        client=client,
        key=key,
        seed=rollout.group.task.index,
        options={**environment.options, **plan.environment.options},
        turn_limit=min(
            environment.turn_limit, plan.environment.max_turns or environment.turn_limit
        ),
        reward_s=plan.serve.feedback_s,
        settle_s=plan.serve.settle_s,
        state=Episode.State.ENVIRONMENT,
        begun_at=Now(),
        heard_at=Now(),
    )
