"""What rollouts say, while they say it: one Redis stream per rollout, and per topic a stream of starts and ends.

The explorer writes here, `hub` reads. Nothing depends on it: what was said is kept in Postgres once a
rollout has ended, and a dead Redis only pauses the live view.

An entry holds one JSON chunk: `t` started | text | turn | edit | held | freed | end, `r` rollout. Those that add tokens have `o`,
the offset of their first token in the completion, `n` tokens, `x` text, and, once somebody has edited the rollout, `e`, how often:
a reader knows from any one of them where it stands. Text has `lp` logprobs in nats, `w`, how many of its characters each
token ended, and `v` weight version besides.
"""

import json
import math
import time
from collections.abc import Sequence

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger(__name__)
DEAD_REDIS = (redis.RedisError, OSError)

ANNOUNCED = frozenset({"started", "end"})  # to the topic, too
ENTRIES_KEPT = 20_000  # of one rollout
ANNOUNCEMENTS_KEPT = 4_000  # of one topic
KEPT_S = 3600
COALESCE_S = 0.05
TIMEOUT_S = 1.0  # of a connection attempt, and of an answer
LONGEST_SILENCE_S = 30.0
MOST_PENDING = 5_000  # chunks held back while Redis is gone


def rollout_key(rollout_id: int) -> str:
    return f"rollout:{rollout_id}"


def topic_key(topic_id: int) -> str:
    return f"live:{topic_id}"


class ChunkWriter:
    """Writes the rollouts of one topic. Not thread-safe; never raises because of Redis."""

    def __init__(self, topic_id: int, url: str | None = None) -> None:
        self.topic_id = topic_id
        # No retries inside the client: they would sleep in the explorer's loop. `flush` has its own back-off.
        self.redis = redis.Redis.from_url(
            url or settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        self.pending: list[dict] = []
        self.growing: dict[int, dict] = {}
        self.edits: dict[int, int] = {}
        self.next_flush = 0.0
        self.silence_s = 0.0

    def started(self, rollout_id: int, group_id: int, question: str, version: int | None) -> None:
        """The rollout begins, or begins again at another explorer: whoever follows it forgets what came before."""
        self._close(rollout_id)
        self.edits.pop(rollout_id, None)
        about = {"topic": self.topic_id, "group": group_id, "question": question, "v": version}
        self.pending.append({"r": rollout_id, "t": "started", **about})

    def add(self, rollout_id: int, offset: int, text: str, logprobs: Sequence[float], version: int) -> None:
        """Tokens `offset` … `offset + len(logprobs)` of the completion and the text they finished (it may lag behind them)."""
        rounded = [round(value, 3) if math.isfinite(value) else None for value in logprobs]
        last = self.growing.get(rollout_id)
        if last and last["v"] == version and last["o"] + last["n"] == offset:
            last["n"] += len(rounded)
            last["x"] += text
            last["lp"] += rounded
            last["w"] += _widths(text, len(rounded))
            return
        chunk = {"r": rollout_id, "t": "text", "o": offset, "n": len(rounded), "x": text, "lp": rounded, "v": version}
        chunk["w"] = _widths(text, len(rounded))
        chunk |= self._edited(rollout_id)
        self.growing[rollout_id] = chunk
        self.pending.append(chunk)

    def turn(self, rollout_id: int, offset: int, tokens: int, text: str) -> None:
        """The user says this; the policy's next turn begins behind its tokens, which are those of the template around it, too."""
        self._close(rollout_id)
        self.pending.append({"r": rollout_id, "t": "turn", "o": offset, "n": tokens, "x": text, **self._edited(rollout_id)})

    def edit(self, rollout_id: int, turn: int, kept: int, keep: int, text: str, tokens: int, by: str) -> None:
        """Turn `turn`, the last from now on, is its first `keep` characters (code points) and this text.

        Of the completion's tokens `kept` stay; `tokens` typed ones stand behind them.
        """
        self._close(rollout_id)
        self.edits[rollout_id] = self.edits.get(rollout_id, 0) + 1
        place = {"turn": turn, "o": kept, "keep": keep, "n": tokens}
        self.pending.append({"r": rollout_id, "t": "edit", **place, "x": text, "by": by, **self._edited(rollout_id)})

    def held(self, rollout_id: int, by: str, seconds: float) -> None:
        """The policy waits, at most so long, while somebody types."""
        self._close(rollout_id)
        self.pending.append({"r": rollout_id, "t": "held", "by": by, "s": seconds})

    def freed(self, rollout_id: int) -> None:
        self.pending.append({"r": rollout_id, "t": "freed"})

    def end(self, rollout_id: int, stop_reason: str) -> None:
        self._close(rollout_id)
        self.edits.pop(rollout_id, None)
        self.pending.append({"r": rollout_id, "t": "end", "stop": stop_reason})

    def _close(self, rollout_id: int) -> None:
        """What comes next begins a chunk of its own."""
        self.growing.pop(rollout_id, None)

    def _edited(self, rollout_id: int) -> dict:
        return {"e": self.edits[rollout_id]} if rollout_id in self.edits else {}

    def flush(self, at_once: bool = False) -> None:
        """Send what is pending, at most every 50 ms; call it on every tick. `at_once`: there will be no further tick."""
        if not self.pending or (time.monotonic() < self.next_flush and not at_once):
            return
        # What is sent once is frozen: sent again after a lost answer, it is the same chunk and readers drop it.
        self.growing.clear()
        try:
            self._send()
        except DEAD_REDIS as error:
            self._back_off(error)
            return
        self.pending.clear()
        self.next_flush, self.silence_s = time.monotonic() + COALESCE_S, 0.0

    def _send(self) -> None:
        pipe = self.redis.pipeline(transaction=False)
        for chunk in self.pending:
            entry = {"c": json.dumps(chunk, ensure_ascii=True, separators=(",", ":"))}
            pipe.xadd(rollout_key(chunk["r"]), entry, maxlen=ENTRIES_KEPT, approximate=True)
            if chunk["t"] in ANNOUNCED:
                pipe.xadd(topic_key(self.topic_id), entry, maxlen=ANNOUNCEMENTS_KEPT, approximate=True)
        for key in {rollout_key(chunk["r"]) for chunk in self.pending} | {topic_key(self.topic_id)}:
            pipe.expire(key, KEPT_S)
        pipe.execute()

    def _back_off(self, error: Exception) -> None:
        """Leave Redis alone for a while, twice as long each time; what is pending waits, up to a bound."""
        if not self.silence_s:
            log.warning("live_view_paused", topic=self.topic_id, error=str(error))
        self.silence_s = min(LONGEST_SILENCE_S, 2 * self.silence_s or 1.0)
        self.next_flush = time.monotonic() + self.silence_s
        del self.pending[:-MOST_PENDING]


def _widths(text: str, tokens: int) -> list[int]:
    """How many characters (code points) each of these tokens ended: what several said together, the last has said."""
    return [0] * (tokens - 1) + [len(text)] if tokens else []
