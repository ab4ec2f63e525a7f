"""Live text of rollouts: one Redis stream per rollout, and one of starts and ends per topic.

The explorer writes here, `hub` reads. Nothing depends on it: the text is stored in Postgres once a
rollout has ended, and an unavailable Redis only pauses the live view.

An entry holds one JSON chunk: `t` is its type (started, text, turn, edit, held, freed or end), `r`
the rollout. Chunks that add tokens have `o`, the offset of their first token in the completion,
`n`, the number of tokens, `x`, the text, and, after an edit of the rollout, `e`, the number of
edits: so a reader knows its position from any of them. Text chunks also have `lp`, logprobs in
nats, `w`, how many of its characters each token completed, and `v`, the weight version.
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

ENTRIES_KEPT = 20_000  # per rollout
ANNOUNCEMENTS_KEPT = 4_000  # per topic
KEPT_S = 3600  # after the last chunk of a rollout that has not ended, or of a topic
ENDED_KEPT_S = 300  # after a rollout has ended: for browsers that reconnect
COALESCE_S = 0.05
TIMEOUT_S = 1.0  # for connecting, and for an answer
MAX_SILENCE_S = 30.0
MAX_PENDING = 5_000  # chunks kept while Redis is unavailable
CHUNKS_AT_ONCE = 1_000
# Adds the chunks in one call: a command for each entry and each expiry, with its answer, cost the
# explorer several times as much. KEYS: the topic's stream, then each chunk's; ARGV: both lengths,
# both times that streams are kept, then for each chunk its type, and the chunk.
ADD = """
local kept = {}
for at = 2, #KEYS do
    local type, chunk = ARGV[2 * at + 1], ARGV[2 * at + 2]
    redis.call('XADD', KEYS[at], 'MAXLEN', '~', ARGV[1], '*', 'c', chunk)
    kept[KEYS[at]] = type == 'end' and ARGV[4] or ARGV[3]
    if type == 'started' or type == 'end' then
        redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'c', chunk)
        kept[KEYS[1]] = ARGV[3]
    end
end
for key, seconds in pairs(kept) do
    redis.call('EXPIRE', key, seconds)
end
return #KEYS - 1
"""


def rollout_key(rollout_id: int) -> str:
    return f"rollout:{rollout_id}"


def topic_key(topic_id: int) -> str:
    return f"live:{topic_id}"


class ChunkWriter:
    """A writer of the live text of one topic's rollouts.

    It is not thread-safe, and never raises because of Redis.
    """

    def __init__(self, topic_id: int, url: str | None = None) -> None:
        self.topic_id = topic_id
        # No retries inside the client: they would sleep in the explorer's loop. `flush` has its own
        # back-off.
        self.redis = redis.Redis.from_url(
            url or settings.REDIS_URL,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._add = self.redis.register_script(ADD)
        self.pending: list[dict] = []
        self.growing: dict[int, dict] = {}
        self.edits: dict[int, int] = {}
        self.next_flush = 0.0
        self.silence_s = 0.0

    def started(self, rollout_id: int, group_id: int, question: str, version: int | None) -> None:
        """Write that the rollout begins, or begins again on another explorer.

        Readers then discard what came before.
        """
        self._close(rollout_id)
        self.edits.pop(rollout_id, None)
        about = {"topic": self.topic_id, "group": group_id, "question": question, "v": version}
        self.pending.append({"r": rollout_id, "t": "started", **about})

    def add(
        self, rollout_id: int, offset: int, text: str, logprobs: Sequence[float], version: int
    ) -> None:
        """Add sampled tokens and the text that they completed.

        `offset` is the place of the first of them in the completion; there is one logprob per
        token. The text may lag behind the tokens.
        """
        rounded = [round(value, 3) if math.isfinite(value) else None for value in logprobs]
        last = self.growing.get(rollout_id)
        if last and last["v"] == version and last["o"] + last["n"] == offset:
            last["n"] += len(rounded)
            last["x"] += text
            last["lp"] += rounded
            last["w"] += _widths(text, len(rounded))
            return
        chunk = {
            "r": rollout_id,
            "t": "text",
            "o": offset,
            "n": len(rounded),
            "x": text,
            "lp": rounded,
            "v": version,
        }
        chunk["w"] = _widths(text, len(rounded))
        chunk |= self._edit_number(rollout_id)
        self.growing[rollout_id] = chunk
        self.pending.append(chunk)

    def turn(self, rollout_id: int, offset: int, tokens: int, text: str) -> None:
        """Add a turn of the user.

        `tokens` includes those of the chat template around it; the policy's next turn begins after
        them.
        """
        self._close(rollout_id)
        self.pending.append(
            {
                "r": rollout_id,
                "t": "turn",
                "o": offset,
                "n": tokens,
                "x": text,
                **self._edit_number(rollout_id),
            }
        )

    def edit(
        self,
        rollout_id: int,
        turn: int,
        kept_tokens: int,
        keep: int,
        text: str,
        tokens: int,
        by: str,
    ) -> None:
        """Replace the end of turn `turn`, which becomes the last turn.

        Its text is its first `keep` characters (code points) and `text`. The first `kept_tokens`
        tokens of the completion stay, and `tokens` typed ones follow them.
        """
        self._close(rollout_id)
        self.edits[rollout_id] = self.edits.get(rollout_id, 0) + 1
        place = {"turn": turn, "o": kept_tokens, "keep": keep, "n": tokens}
        self.pending.append(
            {
                "r": rollout_id,
                "t": "edit",
                **place,
                "x": text,
                "by": by,
                **self._edit_number(rollout_id),
            }
        )

    def held(self, rollout_id: int, by: str, seconds: float) -> None:
        """Write that sampling pauses, for at most `seconds`, while a person types."""
        self._close(rollout_id)
        self.pending.append({"r": rollout_id, "t": "held", "by": by, "s": seconds})

    def freed(self, rollout_id: int) -> None:
        self.pending.append({"r": rollout_id, "t": "freed"})

    def end(self, rollout_id: int, stop_reason: str) -> None:
        self._close(rollout_id)
        self.edits.pop(rollout_id, None)
        self.pending.append({"r": rollout_id, "t": "end", "stop": stop_reason})

    def _close(self, rollout_id: int) -> None:
        """Make the next text of the rollout begin a new chunk."""
        self.growing.pop(rollout_id, None)

    def _edit_number(self, rollout_id: int) -> dict:
        return {"e": self.edits[rollout_id]} if rollout_id in self.edits else {}

    def flush(self, at_once: bool = False) -> None:
        """Send pending chunks, at most every 50 ms; call it on every tick.

        `at_once` sends them regardless, because no further tick will come.
        """
        if not self.pending or (time.monotonic() < self.next_flush and not at_once):
            return
        # A chunk does not change once it was sent: sent again after a lost answer, it is the same
        # chunk, and readers drop it.
        self.growing.clear()
        try:
            self._send()
        except DEAD_REDIS as error:
            self._back_off(error)
            return
        self.pending.clear()
        self.next_flush = time.monotonic() + COALESCE_S
        self.silence_s = 0.0

    def _send(self) -> None:
        """Send the pending chunks, in calls of CHUNKS_AT_ONCE."""
        topic = topic_key(self.topic_id)
        for first in range(0, len(self.pending), CHUNKS_AT_ONCE):
            values: list[int | str] = [ENTRIES_KEPT, ANNOUNCEMENTS_KEPT, KEPT_S, ENDED_KEPT_S]
            keys = [topic]
            for chunk in self.pending[first : first + CHUNKS_AT_ONCE]:
                keys.append(rollout_key(chunk["r"]))
                values.append(chunk["t"])
                values.append(json.dumps(chunk, ensure_ascii=True, separators=(",", ":")))
            self._add(keys=keys, args=values)

    def _back_off(self, error: Exception) -> None:
        """Leave Redis alone for a while, doubled at each failure.

        Chunks wait meanwhile, up to a bound.
        """
        if not self.silence_s:
            log.warning("live_view_paused", topic=self.topic_id, error=str(error))
        self.silence_s = min(MAX_SILENCE_S, 2 * self.silence_s or 1.0)
        self.next_flush = time.monotonic() + self.silence_s
        del self.pending[:-MAX_PENDING]


def _widths(text: str, tokens: int) -> list[int]:
    """Return how many characters (code points) each token completed.

    Text that several tokens completed together counts for the last of them.
    """
    return [0] * (tokens - 1) + [len(text)] if tokens else []
