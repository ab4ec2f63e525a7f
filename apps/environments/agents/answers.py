"""The policy's action in the shapes of OpenAI's chat completions: whole, and in the chunks of a stream."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from apps.environments.agents.conversation import reply
from apps.environments.agents.keys import HEADER
from apps.environments.agents.refusals import Refused
from apps.environments.models import EpisodeTurn

if TYPE_CHECKING:
    from apps.environments.agents.waiting import Call

UNAPPLIED = "X-Rftweb-Not-Applied"
CHAT = "chatcmpl"
TEXT = "cmpl"
COMPLETION = re.compile(rf"(?:{CHAT}|{TEXT})-([1-9][0-9]{{0,17}})-(0|[1-9][0-9]{{0,8}})")


def id_of(turn: EpisodeTurn) -> str:
    """As OpenAI's clients know it: chats and bare texts have prefixes of their own."""
    prefix = TEXT if turn.wishes.get("raw") else CHAT
    return f"{prefix}-{turn.episode_id}-{turn.number}"


def turn_named(completion: object) -> tuple[int, int]:
    """(episode, number) of a completion id. Raises Refused (404)."""
    match = COMPLETION.fullmatch(completion) if isinstance(completion, str) else None
    if match is None:
        raise Refused(404, "completion_not_found", "There is no such completion, or it is not of this key's run.", "completion_id")
    return int(match[1]), int(match[2])


def completion(calls: Sequence["Call"], turns: Sequence[EpisodeTurn]) -> dict:
    """The answers to one call, each under the completion id by which feedback names it."""
    asked, kind = calls[0].asked, "text_completion" if calls[0].asked.wishes.raw else "chat.completion"
    choices = [_choice(place, call, turn) for place, (call, turn) in enumerate(zip(calls, turns, strict=True))]
    return {
        **head(turns[0], asked.model, kind),
        "system_fingerprint": fingerprint(turns),
        "choices": choices,
        "usage": usage(turns),
    }


def _choice(place: int, call: "Call", turn: EpisodeTurn) -> dict:
    text, calls = reply(turn, call.offered)
    about = {"index": place, "finish_reason": _finish(turn, calls), "completion_id": id_of(turn)}
    if call.asked.wishes.raw:
        return {**about, "text": text, "logprobs": None}
    message = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
    if calls:
        message["tool_calls"] = [_call(one) for one in calls]
    return {**about, "message": message, "logprobs": logprobs(turn)}


def logprobs(turn: EpisodeTurn) -> dict | None:
    """Of each token of the answer, where they were asked for: its logprob when it was sampled, in nats. 0: typed by a person."""
    if turn.logprobs is None:
        return None
    told = [{"token": text, "bytes": own, "logprob": value, "top_logprobs": []} for text, own, value in turn.logprobs]
    return {"content": told, "refusal": None}


def fingerprint(turns: Sequence[EpisodeTurn]) -> str | None:
    """The oldest weight version that sampled a token of these answers, as OpenAI's clients expect it; none where nobody sampled."""
    versions = [turn.weight_version for turn in turns if turn.weight_version is not None]
    return f"weights-{min(versions)}" if versions else None


def usage(turns: Sequence[EpisodeTurn]) -> dict:
    """Tokens the policy had seen, and those of its actions, their stop tokens among them."""
    seen, said = turns[0].before, sum(turn.tokens for turn in turns)
    return {"prompt_tokens": seen, "completion_tokens": said, "total_tokens": seen + said}


def head(turn: EpisodeTurn, model: str, kind: str) -> dict:
    created = int((turn.answered_at or turn.asked_at).timestamp())
    return {"id": id_of(turn), "object": kind, "created": created, "model": model}


def headers(call: "Call") -> dict[str, str]:
    """Headers of the answer to this call, with the parameters that it does not follow."""
    named = {HEADER: str(call.turn.episode_id), "Cache-Control": "no-store"}
    return named | ({UNAPPLIED: ", ".join(call.asked.unapplied)} if call.asked.unapplied else {})


def _call(call: dict) -> dict:
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])}}


def _finish(turn: EpisodeTurn, calls: list[dict]) -> str:
    if turn.is_cut:
        return "length"
    return "tool_calls" if calls else "stop"


# -- streams --------------------------------------------------------------------------------------------------------


def first_chunk(call: "Call", place: int = 0) -> bytes:
    return delta(call, {"role": "assistant", "content": ""}, place)


def delta(call: "Call", said: dict, place: int = 0, finish: str | None = None, told: dict | None = None) -> bytes:
    """A piece of answer `place`; of a bare text's, its words alone."""
    turn, raw = call.turn, call.asked.wishes.raw
    words = {"text": said.get("content", "")} if raw else {"delta": said}
    choice = {
        "index": place, **words, "logprobs": told, "finish_reason": finish, "completion_id": id_of(turn),
    }  # fmt: skip
    return event({**head(call.first, call.asked.model, "text_completion" if raw else "chat.completion.chunk"), "choices": [choice]})


def last_chunks(call: "Call", turn: EpisodeTurn, rest: str, place: int = 0) -> Iterator[bytes]:
    """What was not streamed yet, all logprobs where they are asked for, and the reason of the end."""
    _, calls = reply(turn, call.offered)
    told = logprobs(turn)
    if rest or told:
        yield delta(call, {"content": rest}, place, told=told)
    if calls:
        yield delta(call, {"tool_calls": [{"index": n, **_call(one)} for n, one in enumerate(calls)]}, place)
    yield delta(call, {}, place, _finish(turn, calls))


def end_of(calls: Sequence["Call"], turns: Sequence[EpisodeTurn]) -> Iterator[bytes]:
    """The count of tokens where it is asked for, and the end."""
    asked = calls[0].asked
    if asked.with_usage:
        kind = "text_completion" if asked.wishes.raw else "chat.completion.chunk"
        yield event({**head(turns[0], asked.model, kind), "choices": [], "usage": usage(turns)})
    yield b"data: [DONE]\n\n"


def event(document: dict) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"
