"""The policy's action as OpenAI chat completions: whole, and as the chunks of a stream."""

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


def completion_id(turn: EpisodeTurn) -> str:
    """Return the completion id; like OpenAI's, its prefix tells chats from bare texts."""
    prefix = TEXT if turn.wishes.get("raw") else CHAT
    return f"{prefix}-{turn.episode_id}-{turn.number}"


def turn_named(completion: object) -> tuple[int, int]:
    """Return (episode, number) of a completion id. Raises Refused (404)."""
    match = COMPLETION.fullmatch(completion) if isinstance(completion, str) else None
    if match is None:
        raise Refused(
            404,
            "completion_not_found",
            "There is no such completion, or it belongs to another run.",
            "completion_id",
        )
    return int(match[1]), int(match[2])


def completion(calls: Sequence["Call"], turns: Sequence[EpisodeTurn]) -> dict:
    """Return the answers to one call, each with the completion id that feedback refers to."""
    request = calls[0].request
    kind = "text_completion" if request.wishes.raw else "chat.completion"
    choices = [
        _choice(place, call, turn)
        for place, (call, turn) in enumerate(zip(calls, turns, strict=True))
    ]
    return {
        **head(turns[0], request.model, kind),
        "system_fingerprint": fingerprint(turns),
        "choices": choices,
        "usage": usage(turns),
    }


def _choice(place: int, call: "Call", turn: EpisodeTurn) -> dict:
    text, calls = reply(turn, call.offered)
    about = {
        "index": place,
        "finish_reason": _finish(turn, calls),
        "completion_id": completion_id(turn),
    }
    if call.request.wishes.raw:
        return {**about, "text": text, "logprobs": None}
    content = text or (None if calls else "")
    message: dict[str, object] = {"role": "assistant", "content": content, "refusal": None}
    if calls:
        message["tool_calls"] = [_call(tool_call) for tool_call in calls]
    return {**about, "message": message, "logprobs": logprobs(turn)}


def logprobs(turn: EpisodeTurn) -> dict | None:
    """Return the logprob of each token of the answer at sampling, in nats, if requested.

    A token typed by a person has logprob 0.
    """
    if turn.logprobs is None:
        return None
    token_scores = [
        {"token": text, "bytes": token_bytes, "logprob": value, "top_logprobs": []}
        for text, token_bytes, value in turn.logprobs
    ]
    return {"content": token_scores, "refusal": None}


def fingerprint(turns: Sequence[EpisodeTurn]) -> str | None:
    """Return the oldest weight version behind these answers, as OpenAI's fingerprint.

    Returns None if no token was sampled.
    """
    versions = [turn.weight_version for turn in turns if turn.weight_version is not None]
    return f"weights-{min(versions)}" if versions else None


def usage(turns: Sequence[EpisodeTurn]) -> dict:
    """Return the prompt tokens and the tokens of the actions, stop tokens included."""
    prompt_tokens = turns[0].before
    assert prompt_tokens is not None  # an answered turn has it
    completion_tokens = sum(turn.tokens for turn in turns)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def head(turn: EpisodeTurn, model: str, kind: str) -> dict:
    created = int((turn.answered_at or turn.requested_at).timestamp())
    return {"id": completion_id(turn), "object": kind, "created": created, "model": model}


def headers(call: "Call") -> dict[str, str]:
    """Return the headers of the answer, which name the parameters that it ignores."""
    response_headers = {HEADER: str(call.turn.episode_id), "Cache-Control": "no-store"}
    if call.request.unapplied:
        response_headers[UNAPPLIED] = ", ".join(call.request.unapplied)
    return response_headers


def _call(call: dict) -> dict:
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
    }


def _finish(turn: EpisodeTurn, calls: list[dict]) -> str:
    if turn.is_cut:
        return "length"
    return "tool_calls" if calls else "stop"


# -- streams


def first_chunk(call: "Call", place: int = 0) -> bytes:
    return delta(call, {"role": "assistant", "content": ""}, place)


def delta(
    call: "Call",
    message: dict,
    place: int = 0,
    finish: str | None = None,
    logprobs: dict | None = None,
) -> bytes:
    """Return a chunk of answer number `place`; for a bare text, only the text."""
    turn = call.turn
    raw = call.request.wishes.raw
    content = {"text": message.get("content", "")} if raw else {"delta": message}
    choice = {
        "index": place,
        **content,
        "logprobs": logprobs,
        "finish_reason": finish,
        "completion_id": completion_id(turn),
    }
    return encode_agent_event(
        {
            **head(
                call.first,
                call.request.model,
                "text_completion" if raw else "chat.completion.chunk",
            ),
            "choices": [choice],
        }
    )


def last_chunks(
    call: "Call", turn: EpisodeTurn, remaining_text: str, place: int = 0
) -> Iterator[bytes]:
    """Yield the text not streamed yet, the logprobs if requested, and the finish reason."""
    _, calls = reply(turn, call.offered)
    token_scores = logprobs(turn)
    if remaining_text or token_scores:
        yield delta(call, {"content": remaining_text}, place, logprobs=token_scores)
    if calls:
        yield delta(
            call,
            {"tool_calls": [{"index": n, **_call(tool_call)} for n, tool_call in enumerate(calls)]},
            place,
        )
    yield delta(call, {}, place, _finish(turn, calls))


def stream_end(calls: Sequence["Call"], turns: Sequence[EpisodeTurn]) -> Iterator[bytes]:
    """Yield the token counts if requested, and the end of the stream."""
    request = calls[0].request
    if request.with_usage:
        kind = "text_completion" if request.wishes.raw else "chat.completion.chunk"
        yield encode_agent_event(
            {**head(turns[0], request.model, kind), "choices": [], "usage": usage(turns)}
        )
    yield b"data: [DONE]\n\n"


def encode_agent_event(document: dict) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"
