"""An engine whose news is heard a few tokens at a time, however far ahead of a busy machine it is."""

from dataclasses import replace

from workers.engines.interface import Delta, Engine


def in_sips(delta: Delta, size: int) -> list[Delta]:
    """The same news, at most `size` tokens at a time; what ended, ends with the last."""
    count = len(delta.token_ids)
    return [
        replace(
            delta, offset=delta.offset + n, token_ids=delta.token_ids[n : n + size], logprobs=delta.logprobs[n : n + size],
            stop_reason=delta.stop_reason if n + size >= count else None,
        )
        for n in range(0, count, size)
    ] or [delta]  # fmt: skip


def sip(engine: Engine, tokens: int = 1) -> None:
    """From now on so many tokens of each request are heard at a time."""
    drain, waiting = engine.drain, []

    def few(timeout: float) -> list[Delta]:
        waiting.extend(one for delta in drain(0 if waiting else timeout) for one in in_sips(delta, tokens))
        first = {one.request_id: one for one in reversed(waiting)}
        for one in first.values():
            waiting.remove(one)
        return list(first.values())

    engine.drain = few
