"""Wait in the event loop for the policy's action on a call."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from channels.db import database_sync_to_async
from django.db import InterfaceError, OperationalError

from apps.accounts.problems import RETRY_AFTER_S
from apps.environments.action_waiters import TurnState, await_action, wait_for_action
from apps.environments.agents.parameters import ChatCall
from apps.environments.agents.refusals import Refused
from apps.environments.agents.turns import ENDED
from apps.environments.models import Episode, EpisodeTurn
from apps.environments.turn_text import count_tokens_before

# End of the explorer's reason for a prompt without room (workers.explorer.observations).
NO_ROOM = "leaves no room for a reply"
AWAY = "The database is not available; send the same request again."
ANSWER_S = 300.0  # a person may be typing the policy's turn


@dataclass(frozen=True)
class Call:
    """A call, and a turn that answers it.

    `first` is the turn whose id the whole response has, if there are several. `past` is the number
    of rollout tokens before the turn; `offered` are the tools that may be called.
    """

    request: ChatCall
    turn: EpisodeTurn
    first: EpisodeTurn
    past: int = field(init=False)
    rollout_id: int = field(init=False)
    offered: list[dict] = field(init=False)

    def __post_init__(self) -> None:
        first = EpisodeTurn.objects.get(episode=self.turn.episode_id, number=0)
        object.__setattr__(
            self, "past", count_tokens_before(self.turn.episode_id, self.turn.number)
        )
        object.__setattr__(self, "rollout_id", self.turn.episode.rollout_id)
        object.__setattr__(self, "offered", first.tools)


async def answered_all(calls: Sequence[Call]) -> list[EpisodeTurn]:
    """Wait until the policy has acted in all of the turns, and return them.

    Raises Refused (400, 410, 422, 503, 504).
    """
    return list(await asyncio.gather(*map(wait_for_answer, calls)))


async def wait_for_answer(call: Call) -> EpisodeTurn:
    """Wait until the policy has acted, and return the turn.

    Raises Refused (400, 410, 422, 503, 504).
    """
    try:
        turn_state = await await_action(call.turn.episode_id, call.turn.number, ANSWER_S)
        return await database_sync_to_async(load_acted_turn)(call, turn_state)
    except (OperationalError, InterfaceError):  # no view is left that would handle it
        raise Refused(503, "database_unavailable", AWAY, retry_after_s=int(RETRY_AFTER_S)) from None


def answered_here(call: Call) -> EpisodeTurn:
    """Do the same in a thread without an event loop."""
    return load_acted_turn(call, wait_for_action(call.turn.episode_id, call.turn.number, ANSWER_S))


def load_acted_turn(call: Call, turn_state: TurnState) -> EpisodeTurn:
    """Return the turn with its action.

    Raises Refused when the policy has not acted on it. If a one-call episode was abandoned on our
    side, the error lets clients retry, which they do by themselves.
    """
    if turn_state.action is not None:
        return EpisodeTurn.objects.get(episode=turn_state.episode_id, number=turn_state.number)
    if turn_state.state == Episode.State.ABANDONED and not call.turn.episode.key:
        raise Refused(
            503,
            ENDED,
            (
                f"Episode {turn_state.episode_id} was abandoned: {turn_state.reason}."
                " Send the request again."
            ),
            retry_after_s=1,
        )
    if turn_state.state == Episode.State.FAILED and NO_ROOM in turn_state.reason:
        context_length = call.turn.episode.required_run.policy.context_tokens
        message = (
            f"This model's maximum context length is {context_length} tokens; {turn_state.reason}."
            " Shorten the messages."
        )
        raise Refused(
            400,
            "context_length_exceeded",
            message,
            "prompt" if call.request.wishes.raw else "messages",
        )
    if turn_state.state == Episode.State.FAILED:
        raise Refused(422, "not_answerable", f"messages: {turn_state.reason}", "messages")
    if turn_state.state in Episode.CLOSED:
        raise Refused(
            410,
            ENDED,
            f"Episode {turn_state.episode_id} is {turn_state.state}: {turn_state.reason}."
            " Start another.",
        )
    raise Refused(
        504,
        "no_answer_yet",
        f"The policy has not replied within {ANSWER_S:g} s; send the same messages again.",
    )
