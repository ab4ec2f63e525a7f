"""A call whose turn is the policy's: the wait for the action, in the event loop."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from channels.db import database_sync_to_async

from apps.environments.agents.asked import Asked
from apps.environments.agents.refusals import Refused
from apps.environments.agents.turns import ENDED
from apps.environments.models import Episode, EpisodeTurn
from apps.environments.waiting import Standing, action_of, wait_for_action
from apps.environments.writing import past_of

NO_ROOM = "leave no room for an answer"  # as the explorer says it of a prompt (workers.explorer.hearing)
ANSWER_S = 300.0  # a person may have taken the policy's seat


@dataclass(frozen=True)
class Call:
    """What was asked, and a turn that answers it. `first`: of all answers to it, the one by whose id the whole goes.

    `past`: tokens of the rollout before the turn; `offered`: tools it may call.
    """

    asked: Asked
    turn: EpisodeTurn
    first: EpisodeTurn
    past: int = field(init=False)
    rollout_id: int = field(init=False)
    offered: list[dict] = field(init=False)

    def __post_init__(self) -> None:
        first = EpisodeTurn.objects.get(episode=self.turn.episode_id, number=0)
        object.__setattr__(self, "past", past_of(self.turn.episode_id, self.turn.number))
        object.__setattr__(self, "rollout_id", self.turn.episode.rollout_id)
        object.__setattr__(self, "offered", first.tools)


async def answered_all(calls: Sequence[Call]) -> list[EpisodeTurn]:
    """The turns, once the policy has acted in all of them. Raises Refused (400, 410, 422, 503, 504)."""
    return list(await asyncio.gather(*map(answered, calls)))


async def answered(call: Call) -> EpisodeTurn:
    """The turn, once the policy has acted. Raises Refused (400, 410, 422, 503, 504)."""
    standing = await action_of(call.turn.episode_id, call.turn.number, ANSWER_S)
    return await database_sync_to_async(acted)(call, standing)


def answered_here(call: Call) -> EpisodeTurn:
    """The same, for a thread that waits."""
    return acted(call, wait_for_action(call.turn.episode_id, call.turn.number, ANSWER_S))


def acted(call: Call, standing: Standing) -> EpisodeTurn:
    """The turn as it stands. Raises Refused when the policy has not acted on it: a call that is all of its episode may be sent
    again when that was abandoned on our side; clients do so by themselves.
    """
    if standing.action is not None:
        return EpisodeTurn.objects.get(episode=standing.episode_id, number=standing.number)
    if standing.state == Episode.State.ABANDONED and not call.turn.episode.key:
        raise Refused(503, ENDED, f"Episode {standing.episode_id} was abandoned: {standing.reason}. Ask again.", retry_after_s=1)
    if standing.state == Episode.State.FAILED and NO_ROOM in standing.reason:
        most = call.turn.episode.run.policy.context_tokens
        words = f"This model's maximum context length is {most} tokens; {standing.reason}. Shorten the messages."
        raise Refused(400, "context_length_exceeded", words, "prompt" if call.asked.wishes.raw else "messages")
    if standing.state == Episode.State.FAILED:
        raise Refused(422, "not_answerable", f"messages: {standing.reason}", "messages")
    if standing.state in Episode.CLOSED:
        raise Refused(410, ENDED, f"Episode {standing.episode_id} is {standing.state}: {standing.reason}. Begin another.")
    raise Refused(504, "no_answer_yet", f"The policy has not answered within {ANSWER_S:g} s; ask again with the same messages.")
