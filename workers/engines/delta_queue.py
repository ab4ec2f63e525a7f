"""Queue an engine's output, merged by request, until the explorer takes it; thread-safe."""

import threading

from workers.engines.interface import Delta, EngineDied


class DeltaQueue:
    """Thread-safe queue of deltas, which also counts the requests in flight."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: set[str] = set()
        self._news: dict[str, list[Delta]] = {}
        self._death: str | None = None

    def expect(self, ids: list[str]) -> None:
        """Register new requests.

        Raises ValueError, and registers none, if a request is in flight already or listed twice.
        """
        with self._changed:
            if len(set(ids)) != len(ids) or not self._open.isdisjoint(ids):
                raise ValueError(
                    f"request ids must be new: {sorted(self._open.intersection(ids)) or ids}"
                )
            self._open.update(ids)

    def put(self, deltas: list[Delta]) -> None:
        """Add output, and merge it with output of the same request that was not taken yet.

        Output of two weight versions is never merged.
        """
        with self._changed:
            for delta in deltas:
                waiting = self._news.setdefault(delta.request_id, [])
                if waiting and waiting[-1].version == delta.version:
                    waiting[-1] = _join_deltas(waiting[-1], delta)
                else:
                    waiting.append(delta)
                if delta.stop_reason:
                    self._open.discard(delta.request_id)
            self._changed.notify_all()

    def take(self, timeout: float) -> list[Delta]:
        """Return all output so far, after waiting up to `timeout` seconds for the first.

        Raises EngineDied when there is no output and none can follow.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._news or self._death is not None, timeout)
            if not self._news and self._death is not None:
                raise EngineDied(self._death)
            news = self._news
            self._news = {}
        return [delta for deltas in news.values() for delta in deltas]

    def close(self, death: str) -> None:
        """Record that no output will follow, with the reason."""
        with self._changed:
            self._death = death
            self._open.clear()
            self._changed.notify_all()

    def in_flight(self) -> int:
        with self._changed:
            return len(self._open)


def _join_deltas(first: Delta, then: Delta) -> Delta:
    return Delta(
        first.request_id,
        first.offset,
        first.token_ids + then.token_ids,
        first.logprobs + then.logprobs,
        first.version,
        then.stop_reason,
    )
