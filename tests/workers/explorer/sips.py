"""Engines that deliver only a few tokens at a time, independent of the machine's speed."""

from collections.abc import Callable
from dataclasses import replace

from workers.engines.interface import Delta, Engine


def split(delta: Delta, size: int) -> list[Delta]:
    """Split a delta into deltas of at most `size` tokens; the last one carries the stop reason."""
    count = len(delta.token_ids)
    return [
        replace(
            delta,
            offset=delta.offset + n,
            token_ids=delta.token_ids[n : n + size],
            logprobs=delta.logprobs[n : n + size],
            stop_reason=delta.stop_reason if n + size >= count else None,
        )
        for n in range(0, count, size)
    ] or [delta]


def sip(engine: Engine, tokens: int = 1) -> Engine:
    """Make each call of `engine.drain` return at most `tokens` tokens of each request."""
    drain = engine.drain
    waiting = []

    def few(timeout: float) -> list[Delta]:
        waiting.extend(
            one for delta in drain(0 if waiting else timeout) for one in split(delta, tokens)
        )
        first = {one.request_id: one for one in reversed(waiting)}
        for one in first.values():
            waiting.remove(one)
        return list(first.values())

    engine.drain = few
    return engine


def sipping(build: Callable, tokens: int = 1) -> Callable:
    """Wrap the session's `build` so that its engines deliver `tokens` tokens at a time."""

    def wrapped(*arguments, **options) -> tuple[Engine, str]:
        engine, reason = build(*arguments, **options)
        return sip(engine, tokens), reason

    return wrapped
