"""The moves of an episode: the environment observes and rewards, the policy acts. Each said twice is said once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from apps.accounts.locking import lock_one, unit_of_work
from apps.environments.closing import closed
from apps.environments.errors import CannotPlay
from apps.environments.judging import heard, is_judged
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.observations import ROLES, Observation, checked, checked_reward, shows_picture
from apps.environments.waiting import ring
from apps.environments.wishes import NO_WISHES, Wishes
from apps.rollouts.models import shown
from apps.rollouts.turns import POLICY
from apps.runs.models import Run
from apps.streaming import bells
from apps.tasksets.messages import NONE_KNOWN
from apps.tasksets.models import Picture
from apps.tasksets.pictures import Encoded

ENVIRONMENT_DONE = "the environment is done"


@dataclass(frozen=True)
class Action:
    """What the policy did on observation `number`: its text, and where its tokens stand in the rollout's completion.

    `before`: tokens it had seen by then; `is_cut`: a length ended it; `weight_version`: the oldest that sampled a token of it;
    `logprobs`: (text, bytes, logprob) of its tokens, where they were wished for. An outside client's has no tokens, and
    `first` is None.
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
def observe(episode_id: int, number: int, observation: Observation, **said: Any) -> Episode:
    """`observe_in` an episode that nobody holds yet."""
    return observe_in(locked(episode_id), number, observation, **said)


def observe_in(
    episode: Episode,
    number: int,
    observation: Observation,
    *,
    reward: float | None = None,
    done: bool = False,
    info: dict | None = None,
    tools: Sequence[dict] = (),
    wishes: Wishes = NO_WISHES,
    pictures: Mapping[str, Encoded] = NONE_KNOWN,
) -> Episode:
    """The environment of a locked episode says what the policy sees next, and what its last action earned (None: not known, or
    not yet).

    Observation 0 follows the reset and has no reward. `done`: nothing follows. `tools`: what the policy may call. `wishes`: how
    it is to answer. `pictures`: those of the observation that were read already. The same said again changes nothing.
    Raises CannotPlay: closed, not_your_move (nobody has acted since), changed (it was said before, differently),
    bad_observation, bad_reward.
    """
    taken: dict[str, Encoded] | None = {} if shows_picture(observation) and _sees(episode) else None
    said = checked(observation, _roles(episode, number), taken, pictures)
    earned = checked_reward(episode.environment, reward)
    if number == 0 and earned is not None:
        raise CannotPlay("bad_reward", "reward: nothing was done before observation 0; leave it out")
    if number < episode.turns:
        _require_same(episode, number, said, earned, done)
        return episode
    _require_move(episode, number)
    if taken:
        Picture.objects.keep(episode.run.project, taken.values())
    EpisodeTurn.objects.create(
        episode=episode, number=number, observation=said, done=done, info=info or {}, tools=list(tools), wishes=wishes.kept
    )
    if earned is not None:
        _reward_action(episode, number - 1, earned)
    episode.turns, episode.state = number + 1, Episode.State.POLICY
    if episode.session_id is not None:
        ring([episode.pk])
    else:
        transaction.on_commit(partial(bells.ring, "explore"))  # it looks by itself, too, but not as soon
    if done:
        return closed(episode, Episode.State.DONE, ENVIRONMENT_DONE)
    episode.moved_at = episode.heard_at = Now()
    episode.save(update_fields=["turns", "state", "moved_at", "heard_at"])
    return episode


def _roles(episode: Episode, number: int) -> tuple[str, ...]:
    """Who may speak in this observation. An agent may show the policy answers first: its words make the whole prompt."""
    shows = number == 0 and episode.environment.kind == Environment.Kind.AGENT
    return (*ROLES, POLICY) if shows else ROLES


def _sees(episode: Episode) -> bool:
    """Whether the policy that plays it sees pictures; of an outside client nobody knows."""
    return Run.objects.filter(pk=episode.run_id, policy__sees_pictures=True).exists()


def _reward_action(episode: Episode, number: int, earned: float) -> None:
    if episode.seen.filter(number=number, reward=None).update(reward=earned, rewarded_at=Now()):
        return
    turn = episode.seen.get(number=number)
    if turn.reward != earned:
        raise CannotPlay("changed", f"turn {number} has earned {turn.reward:g} already; it cannot change")


def locked(episode_id: int) -> Episode:
    """The episode with its environment, nobody else's to write until the transaction ends."""
    return lock_one(Episode.objects.filter(pk=episode_id).select_related("environment"))


def _require_move(episode: Episode, number: int) -> None:
    if not episode.is_open:
        raise CannotPlay("closed", f"the episode is {episode.state}: {episode.reason}")
    if number != episode.turns:
        raise CannotPlay("not_your_move", f"number: the next observation is {episode.turns}, not {number}")
    if episode.state != Episode.State.ENVIRONMENT:
        raise CannotPlay("not_your_move", f"it is not the environment's move: {episode.get_state_display()}")


def _require_same(episode: Episode, number: int, said: Observation, earned: float | None, done: bool) -> None:
    turn = episode.seen.get(number=number)
    before = episode.seen.filter(number=number - 1).values_list("reward", flat=True).first()
    if turn.observation != said or turn.done != done or (earned is not None and earned != before):
        raise CannotPlay("changed", f"observation {number} was said before, with another text, reward or end; it cannot change")


@unit_of_work
def reward(episode_id: int, number: int, value: float, is_final: bool = False) -> EpisodeTurn:
    """What the action of this turn earned, told by itself. Once the rollout is judged it is kept as late. Twice is once.

    `is_final`: no further reward comes for this episode.

    Raises CannotPlay: not_your_move (nothing was done there yet), changed, bad_reward.
    """
    episode = locked(episode_id)
    turn = episode.seen.filter(number=number).first()
    if turn is None or turn.answered_at is None:
        raise CannotPlay("not_your_move", f"number: nothing was done in turn {number} yet")
    pay(episode, turn, value)
    heard([episode], [episode.pk] if is_final else [])
    return turn


def pay(episode: Episode, turn: EpisodeTurn, value: float) -> None:
    """What the action of this turn of a locked episode earned. Raises CannotPlay: changed, bad_reward."""
    earned = checked_reward(episode.environment, value)
    if earned is None:
        raise CannotPlay("bad_reward", "reward: must be a number")
    known = turn.reward if turn.reward is not None else turn.late_reward
    if known is not None and known != earned:
        raise CannotPlay("changed", f"turn {turn.number} has earned {known:g} already; it cannot change")
    if known is None:
        setattr(turn, "late_reward" if is_judged(episode) else "reward", earned)
        turn.rewarded_at = Now()
        turn.save(update_fields=["reward", "late_reward", "rewarded_at"])


# One statement for all that was done since the last look: it moves only episodes whose newest observation it answers.
ACT = """
    WITH said AS (
        SELECT * FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::int[], %s::int[], %s::int[], %s::bool[], %s::int[],
                %s::text[])
            AS s(episode, number, action, first, tokens, before, is_cut, weight_version, logprobs)),
    moved AS (
        UPDATE environments_episode e SET state = 'environment', moved_at = statement_timestamp()
        FROM said s WHERE e.id = s.episode AND e.state = 'policy' AND e.turns = s.number + 1 RETURNING e.id)
    UPDATE environments_episodeturn t
    SET action = s.action, first = s.first, tokens = s.tokens, before = s.before, is_cut = s.is_cut,
        weight_version = s.weight_version, logprobs = s.logprobs::jsonb, answered_at = statement_timestamp()
    FROM said s JOIN moved m ON m.id = s.episode WHERE t.episode_id = s.episode AND t.number = s.number"""


def act(actions: Sequence[Action]) -> None:
    """The policy has acted: it is the environment's move in these episodes, but for those that have ended meanwhile."""
    if not actions:
        return
    rows = [
        (
            said.episode_id, said.number, shown(said.text), said.first, said.tokens, said.before, said.is_cut, said.weight_version,
            None if said.logprobs is None else json.dumps([(shown(text), *rest) for text, *rest in said.logprobs]),
        )
        for said in actions
    ]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(ACT, [list(column) for column in zip(*rows, strict=True)])
    ring([said.episode_id for said in actions])


def heard_of(episode_id: int) -> None:
    """Whoever plays it is there."""
    Episode.objects.open().filter(pk=episode_id).update(heard_at=Now())


def plays(environment: Environment) -> int:
    """Episodes that are played in it now."""
    return environment.episodes.filter(state__in=[Episode.State.ENVIRONMENT, Episode.State.POLICY]).count()
