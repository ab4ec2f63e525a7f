"""Stream an answer while it is written, completed from the finished action.

Without Redis the whole answer is one chunk at the end.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence

from apps.accounts.async_response import STILL_HERE
from apps.environments.agents import answers
from apps.environments.agents.refusals import Refused, agent_error_document
from apps.environments.agents.waiting import Call, answered_all
from apps.environments.models import EpisodeTurn
from apps.environments.turn_text import silences, stream_turn_text


async def stream_parts(calls: Sequence[Call]) -> AsyncGenerator[bytes, None]:
    """Yield the events of the stream.

    If there is no answer, raises Refused before the first event; later errors are sent as events.
    Several answers to one call are sent whole, once all are complete.
    """
    answer = asyncio.ensure_future(answered_all(calls))
    call = calls[0]
    streamed = ""
    has_started = False
    try:
        async for piece in _pieces(call, answer) if len(calls) == 1 else silences(answer):
            if piece and not streamed and not call.request.wishes.raw:
                yield answers.first_chunk(call)
            yield answers.delta(call, {"content": piece}) if piece else STILL_HERE
            streamed = streamed + piece
            has_started = True
        try:
            turns = await answer
        except Refused as why:
            if not has_started:
                raise
            yield answers.encode_agent_event(why.document)
            return
        for part in (
            _remaining_chunks(call, turns[0], streamed) if streamed else whole_parts(calls, turns)
        ):
            yield part
    finally:
        answer.cancel()


def whole_parts(calls: Sequence[Call], turns: Sequence[EpisodeTurn]) -> Iterator[bytes]:
    """Yield the events of answers that were not streamed."""
    for place, (call, turn) in enumerate(zip(calls, turns, strict=True)):
        if not call.request.wishes.raw:
            yield answers.first_chunk(call, place)
        yield from answers.last_chunks(call, turn, answers.reply(turn, call.offered)[0], place)
    yield from answers.stream_end(calls, turns)


def _remaining_chunks(call: Call, turn: EpisodeTurn, released: str) -> Iterator[bytes]:
    text, _ = answers.reply(turn, call.offered)
    if not text.startswith(released):
        why = (
            "Someone edited the reply while it was generated; send the same messages again to get "
            "it."
        )
        yield answers.encode_agent_event(agent_error_document(409, why, "answer_edited"))
        return
    yield from answers.last_chunks(call, turn, text[len(released) :])
    yield from answers.stream_end([call], [turn])


def _pieces(call: Call, answer: asyncio.Future) -> AsyncIterator[str]:
    """Yield text as it is written; with tools nothing, as calls are parsed from whole answers."""
    return (
        silences(answer)
        if call.offered
        else stream_turn_text(call.rollout_id, call.past, answer, call.request.wishes)
    )
