"""An answer while it is written, and the finished action for what that did not bring: in one chunk at the end without Redis."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from apps.accounts.later import STILL_HERE
from apps.environments.agents import answers
from apps.environments.agents.refusals import Refused, document
from apps.environments.agents.waiting import Call, answered_all
from apps.environments.models import EpisodeTurn
from apps.environments.writing import pieces, silences


async def parts_of(calls: Sequence[Call]) -> AsyncIterator[bytes]:
    """The events of the stream. Raises Refused before the first when there is none; afterwards errors are events.

    Several answers to one call come whole, once all are there.
    """
    answer = asyncio.ensure_future(answered_all(calls))
    call, said, sent = calls[0], "", False
    try:
        async for piece in _pieces(call, answer) if len(calls) == 1 else silences(answer):
            if piece and not said and not call.asked.wishes.raw:
                yield answers.first_chunk(call)
            yield answers.delta(call, {"content": piece}) if piece else STILL_HERE
            said, sent = said + piece, True
        try:
            turns = await answer
        except Refused as why:
            if not sent:
                raise
            yield answers.event(why.document)
            return
        for part in _rest(call, turns[0], said) if said else whole_parts(calls, turns):
            yield part
    finally:
        answer.cancel()


def whole_parts(calls: Sequence[Call], turns: Sequence[EpisodeTurn]) -> Iterator[bytes]:
    """Answers of which nothing was streamed."""
    for place, (call, turn) in enumerate(zip(calls, turns, strict=True)):
        if not call.asked.wishes.raw:
            yield answers.first_chunk(call, place)
        yield from answers.last_chunks(call, turn, answers.reply(turn, call.offered)[0], place)
    yield from answers.end_of(calls, turns)


def _rest(call: Call, turn: EpisodeTurn, said: str) -> Iterator[bytes]:
    text, _ = answers.reply(turn, call.offered)
    if not text.startswith(said):
        why = "Somebody has edited the answer while it was written; ask for it again with the same messages."
        yield answers.event(document(409, why, "answer_edited"))
        return
    yield from answers.last_chunks(call, turn, text[len(said) :])
    yield from answers.end_of([call], [turn])


def _pieces(call: Call, answer: asyncio.Future) -> AsyncIterator[str]:
    """Text as it is written. Tool calls are read from whole answers alone."""
    return silences(answer) if call.offered else pieces(call.rollout_id, call.past, answer, call.asked.wishes)
