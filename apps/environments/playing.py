"""The moves of an episode: the environment gives observations and rewards, the policy acts.

A repeated move changes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from psycopg.types.json import Jsonb

from apps.accounts.compiled_queries import compiled_query
from apps.accounts.locking import rows_to_lock, unit_of_work
from apps.environments.action_sampling import NO_WISHES, ActionSampling
from apps.environments.action_waiters import TurnState, announce_actions, notify_episodes
from apps.environments.closing import closed
from apps.environments.errors import CannotPlay
from apps.environments.judging import is_judged, judge_complete_episodes
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.observations import (
    ROLES,
    Observation,
    check_observation,
    checked_reward,
    shows_picture,
)
from apps.rollouts.models import storable_output
from apps.rollouts.turns import POLICY
from apps.runs.models import Run
from apps.streaming import worker_notifications
from apps.tasksets.messages import NONE_KNOWN
from apps.tasksets.models import Picture
from apps.tasksets.pictures import EncodedPicture

ENVIRONMENT_DONE = "the environment is done"


@dataclass(frozen=True)
class Action:
    """The policy's action on observation `number`: its text, and its tokens' positions.

    - `first`, `tokens`: position and number of its tokens in the rollout's completion. The action
      of an outside client has no tokens, and `first` is None.
    - `before`: number of tokens that the policy had seen by then.
    - `is_cut`: a length limit ended it.
    - `weight_version`: the oldest version that sampled a token of it.
    - `logprobs`: (text, bytes, logprob) of its tokens, if requested.
    """

    episode_id: int
    number: int
    text: str
    first: int | None
    tokens: int
    before: int | None = None
    is_cut: bool = False
    logprobs: Sequence[tuple[str, list[int], float]] | None = None
    weight_version: int | None = None


@unit_of_work
def observe(episode_id: int, number: int, observation: object, **fields: Any) -> Episode:
    """Lock the episode and record an observation as `observe_in` does."""
    return observe_in(locked(episode_id), number, observation, **fields)


def observe_in(
    episode: Episode,
    number: int,
    observation: object,
    *,
    reward: float | None = None,
    done: bool = False,
    info: dict | None = None,
    tools: Sequence[dict] = (),
    wishes: ActionSampling = NO_WISHES,
    pictures: Mapping[str, EncodedPicture] = NONE_KNOWN,
) -> Episode:
    """Record the next observation of a locked episode, and the reward of its last action.

    A `reward` of None is unknown (yet); observation 0 follows the reset and has none. `done` ends
    the episode. `tools` are those that the policy may call, `wishes` how it must answer, `pictures`
    those of the observation that were already decoded. Repeating the same observation changes
    nothing. Raises CannotPlay: closed, not_your_move (no action since), changed (it was sent
    before, differently), bad_observation, bad_reward.
    """
    new_pictures: dict[str, EncodedPicture] | None = (
        {} if shows_picture(observation) and _policy_sees_pictures(episode) else None
    )
    stored = check_observation(observation, _roles(episode, number), new_pictures, pictures)
    last_reward = checked_reward(episode.environment, reward)
    if number == 0 and last_reward is not None:
        raise CannotPlay(
            "bad_reward", "reward: there is no action before observation 0; leave it out"
        )
    if number < episode.turns:
        _require_same(episode, number, stored, last_reward, done)
        return episode
    _require_move(episode, number)
    if new_pictures:
        Picture.objects.keep(episode.required_run.project, new_pictures.values())
    turn = EpisodeTurn(
        episode=episode,
        number=number,
        observation=stored,
        done=done,
        info=info or {},
        tools=list(tools),
        wishes=wishes.changed_options,
    )
    _write_observation(turn, last_reward)
    episode.turns = number + 1
    episode.state = Episode.State.POLICY
    if episode.session_id is not None:
        notify_episodes([episode.pk])
    else:
        # The explorer also polls, but less often.
        transaction.on_commit(partial(worker_notifications.notify_workers, "explore"))
    if done:
        return closed(episode, Episode.State.DONE, ENVIRONMENT_DONE)
    return episode


def _roles(episode: Episode, number: int) -> tuple[str, ...]:
    """Return the roles that may occur in this observation.

    An agent may include assistant messages in the first one, because its messages make the whole
    prompt.
    """
    shows = number == 0 and episode.environment.kind == Environment.Kind.AGENT
    return (*ROLES, POLICY) if shows else ROLES


def _policy_sees_pictures(episode: Episode) -> bool:
    """Tell whether the policy that acts in the episode sees pictures.

    False for an outside client.
    """
    run = episode.run_id
    return run is not None and Run.objects.filter(pk=run, policy__sees_pictures=True).exists()


# One statement for the three rows that an observation changes: every turn of every episode is one.
OBSERVE = """
    WITH rewarded AS (
        UPDATE environments_episodeturn SET reward = %(reward)s, rewarded_at = statement_timestamp()
        WHERE episode_id = %(episode)s AND number = %(number)s - 1 AND reward IS NULL
            AND %(reward)s::float8 IS NOT NULL
        RETURNING id),
    inserted AS (
        INSERT INTO environments_episodeturn (episode_id, number, observation, done, info, tools,
            wishes, action, is_cut, reason, tokens)
        VALUES (%(episode)s, %(number)s, %(observation)s, %(done)s, %(info)s, %(tools)s,
            %(wishes)s, '', false, '', 0))
    UPDATE environments_episode SET turns = %(number)s + 1, state = 'policy',
        moved_at = statement_timestamp(), heard_at = statement_timestamp()
    WHERE id = %(episode)s
    RETURNING EXISTS (SELECT FROM rewarded)"""


def _write_observation(turn: EpisodeTurn, last_reward: float | None) -> None:
    """Write a new turn of its locked episode and what the action before it earned.

    Raises CannotPlay: changed.
    """
    values: dict[str, Any] = {
        "episode": turn.episode_id,
        "number": turn.number,
        "observation": Jsonb(turn.observation),
        "done": turn.done,
        "info": Jsonb(turn.info),
        "tools": Jsonb(turn.tools),
        "wishes": Jsonb(turn.wishes),
        "reward": last_reward,
    }
    with connection.cursor() as cursor:
        cursor.execute(OBSERVE, values)
        [is_rewarded] = cursor.fetchone()
    if last_reward is not None and not is_rewarded:
        _require_same_reward(turn.episode, turn.number - 1, last_reward)


def _require_same_reward(episode: Episode, number: int, last_reward: float) -> None:
    turn = episode.seen.get(number=number)
    if turn.reward != last_reward:
        raise CannotPlay(
            "changed", f"turn {number} already has the reward {turn.reward:g}; it cannot change"
        )


def locked(episode_id: int) -> Episode:
    """Return the episode with its environment, locked until the transaction ends."""
    episodes = _lock(episode_id)
    if not episodes:
        raise Episode.DoesNotExist(f"episode {episode_id} does not exist")
    return episodes[0]


@compiled_query
def _lock(pk: int) -> QuerySet[Episode]:
    return rows_to_lock(Episode.objects.filter(pk=pk).select_related("environment"))


def _require_move(episode: Episode, number: int) -> None:
    if not episode.is_open:
        raise CannotPlay("closed", f"the episode is {episode.state}: {episode.reason}")
    if number != episode.turns:
        raise CannotPlay(
            "not_your_move", f"number: the next observation is {episode.turns}, not {number}"
        )
    if episode.state != Episode.State.ENVIRONMENT:
        raise CannotPlay(
            "not_your_move", f"it is not the environment's move: {episode.get_state_display()}"
        )


def _require_same(
    episode: Episode, number: int, observation: Observation, last_reward: float | None, done: bool
) -> None:
    turn = episode.seen.get(number=number)
    before = episode.seen.filter(number=number - 1).values_list("reward", flat=True).first()
    if (
        turn.observation != observation
        or turn.done != done
        or (last_reward is not None and last_reward != before)
    ):
        raise CannotPlay(
            "changed",
            (
                f"observation {number} was already sent with a different text, reward or end; it "
                "cannot change"
            ),
        )


@unit_of_work
def record_turn_reward(
    episode_id: int, number: int, value: float, is_final: bool = False
) -> EpisodeTurn:
    """Record the reward of this turn's action separately from an observation.

    Once the rollout is judged, the reward is stored as late. Repeating it changes nothing.
    `is_final` means that no further reward comes for this episode. Raises CannotPlay: not_your_move
    (no action in this turn yet), changed, bad_reward.
    """
    episode = locked(episode_id)
    turn = episode.seen.filter(number=number).first()
    if turn is None or turn.answered_at is None:
        raise CannotPlay("not_your_move", f"number: there is no action in turn {number} yet")
    pay(episode, turn, value)
    judge_complete_episodes([episode], [episode.pk] if is_final else [])
    return turn


def pay(episode: Episode, turn: EpisodeTurn, value: float) -> None:
    """Set the reward of the action of this turn of a locked episode.

    Raises CannotPlay: changed, bad_reward.
    """
    reward = checked_reward(episode.environment, value)
    if reward is None:
        raise CannotPlay("bad_reward", "reward: must be a number")
    previous = turn.reward if turn.reward is not None else turn.late_reward
    if previous is not None and previous != reward:
        raise CannotPlay(
            "changed", f"turn {turn.number} already has the reward {previous:g}; it cannot change"
        )
    if previous is None:
        setattr(turn, "late_reward" if is_judged(episode) else "reward", reward)
        turn.rewarded_at = Now()
        turn.save(update_fields=["reward", "late_reward", "rewarded_at"])


# One statement for all actions since the last call: it moves only episodes whose newest observation
# is answered.
ACT = """
    WITH said AS (
        SELECT * FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::int[], %s::int[], %s::int[],
            %s::bool[], %s::int[],
                %s::text[])
            AS s(episode, number, action, first, tokens, before, is_cut, weight_version, logprobs)),
    moved AS (
        UPDATE environments_episode e SET state = 'environment', moved_at = statement_timestamp()
        FROM said s WHERE e.id = s.episode AND e.state = 'policy' AND e.turns = s.number + 1
            RETURNING e.id, e.state, e.reason)
    UPDATE environments_episodeturn t
    SET action = s.action, first = s.first, tokens = s.tokens, before = s.before, is_cut = s.is_cut,
        weight_version = s.weight_version, logprobs = s.logprobs::jsonb,
            answered_at = statement_timestamp()
    FROM said s JOIN moved m ON m.id = s.episode
        WHERE t.episode_id = s.episode AND t.number = s.number
    RETURNING t.episode_id, t.number, m.state, m.reason, t.action, t.tokens"""


def record_actions(actions: Sequence[Action]) -> list[int]:
    """Record the policy's actions in these episodes, except those that have ended meanwhile.

    The next move is then the environment's. Returns the open episodes that lack the observation
    acted on: PostgreSQL lost it in a crash before it was on disk (apps.accounts.durability).
    """
    if not actions:
        return []
    rows = [
        (
            action.episode_id,
            action.number,
            storable_output(action.text),
            action.first,
            action.tokens,
            action.before,
            action.is_cut,
            action.weight_version,
            (
                None
                if action.logprobs is None
                else json.dumps([(storable_output(text), *rest) for text, *rest in action.logprobs])
            ),
        )
        for action in actions
    ]
    with connection.cursor() as cursor:
        cursor.execute(ACT, [list(column) for column in zip(*rows, strict=True)])
        recorded_states = [TurnState(*row) for row in cursor.fetchall()]
    announce_actions(recorded_states)
    episodes = {turn.episode_id for turn in recorded_states}
    unrecorded = {
        action.episode_id: action.number for action in actions if action.episode_id not in episodes
    }
    notify_episodes(unrecorded)
    return _without_observation(unrecorded) if unrecorded else []


def _without_observation(numbers: Mapping[int, int]) -> list[int]:
    """Return those of these open episodes that have fewer observations than the given number."""
    rows = Episode.objects.open().filter(pk__in=numbers).values_list("pk", "turns")
    return [pk for pk, turns in rows if turns <= numbers[pk]]


def record_sign_of_life(episode_id: int) -> None:
    """Record that the episode's player is alive."""
    Episode.objects.open().filter(pk=episode_id).update(heard_at=Now())


def plays(environment: Environment) -> int:
    """Return the number of episodes that are being played in the environment now."""
    return environment.episodes.filter(
        state__in=[Episode.State.ENVIRONMENT, Episode.State.POLICY]
    ).count()
