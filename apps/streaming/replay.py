"""Positions of a socket in the rollouts it follows: what was sent and what must still be sent."""

from dataclasses import dataclass, field

from apps.streaming.chunks import rollout_key, topic_key
from apps.streaming.hub import START, Entry, EntryId, Hub, parse_entry_id
from apps.streaming.watcher import Watcher

PAGE = 500  # entries of one stream per read
STREAMS_AT_ONCE = 50
MAX_RESUMED = 500
MAX_FRAME_BYTES = 500  # chunks
MAX_ENDED = 2_000


@dataclass
class Position:
    """The progress in one rollout: last entry sent, number of edits, offset of the next token."""

    last: EntryId = START
    offset: int = 0
    edits: int = 0

    def takes(self, entry: Entry) -> bool:
        """Tell whether an entry is new, and if so move the position past it.

        A chunk that a retry wrote twice is not new.
        """
        if entry.id <= self.last:
            return False
        self.last = entry.id
        chunk = entry.chunk
        if chunk["t"] == "started":
            self.offset = self.edits = 0
        return "o" not in chunk or self._goes_on(chunk)

    def _goes_on(self, chunk: dict) -> bool:
        """Tell whether a chunk continues the text, and if so move the offset.

        Only a new edit may move the offset back. Chunks from before the edit, and repeated ones,
        are dropped.
        """
        edits = chunk.get("e", 0)
        if edits < self.edits or (
            edits == self.edits and (chunk["t"] == "edit" or chunk["o"] < self.offset)
        ):
            return False
        self.edits, self.offset = edits, chunk["o"] + chunk["n"]
        return True


@dataclass
class Replay:
    """The rollouts that one socket follows.

    Methods return the chunks to send, as JSON; rollouts whose earlier chunks are lost are added to
    `without_past`. `open_topics` are the topics of which the person sees everything. Rollouts that
    none of them has announced are sent in the blind form.
    """

    hub: Hub
    watcher: Watcher
    topic_ids: list[int]
    open_topics: frozenset[int]
    open_rollouts: set[int] = field(default_factory=set)
    positions: dict[int, Position] = field(default_factory=dict)
    without_past: set[int] = field(default_factory=set)
    ended: dict[int, EntryId] = field(
        default_factory=dict
    )  # rollouts that were sent to their end, in that order

    async def begin(self, after: dict[int, EntryId]) -> list[str]:
        """Follow the topics, all their live rollouts, and the rollouts in `after`.

        `after` gives for each rollout the last entry that the browser has. Raises DEAD_REDIS.
        """
        await self.hub.watch(self.watcher, [topic_key(topic) for topic in self.topic_ids])
        started, live = await self._announced()
        # A rollout that these topics did not announce may belong to another team: its number alone
        # gives no access.
        self.without_past |= set(after) - started
        return await self.follow(
            {rollout: after.get(rollout) for rollout in sorted(live | (set(after) & started))}
        )

    async def _announced(self) -> tuple[set[int], set[int]]:
        """Return the rollouts in the topics' streams, and those that have not ended."""
        spans = {topic_key(topic): START for topic in self.topic_ids}
        live: dict[int, bool] = {}
        for entries in (await self.hub.past(spans, count=10_000)).values():
            for entry in entries:
                self.hear_announced(entry)
            live |= {entry.chunk["r"]: entry.chunk["t"] == "started" for entry in entries}
        return set(live), {rollout for rollout, is_live in live.items() if is_live}

    def hear_announced(self, entry: Entry) -> None:
        """Note whether a started rollout belongs to a topic that the person sees in full.

        A rollout belongs to one topic for good.
        """
        if entry.chunk["t"] == "started" and any(
            entry.key == topic_key(topic) for topic in self.open_topics
        ):
            self.open_rollouts.add(entry.chunk["r"])

    async def follow(self, after: dict[int, EntryId | None]) -> list[str]:
        """Follow these rollouts after the given entry; None means from the beginning."""
        chunks: list[str] = []
        await self.hub.watch(self.watcher, [rollout_key(rollout) for rollout in after])
        rollouts = list(after)
        for n in range(0, len(rollouts), STREAMS_AT_ONCE):
            chunks += await self._catch_up(
                {rollout: after[rollout] for rollout in rollouts[n : n + STREAMS_AT_ONCE]}
            )
        for rollout in rollouts:
            # Its end was sent before its start was announced: it is not a new attempt.
            if rollout in self.positions and self.positions[rollout].last == self.ended.get(
                rollout
            ):
                self._leave(rollout)
        return chunks

    async def _catch_up(self, after: dict[int, EntryId | None]) -> list[str]:
        """Return the chunks written until now; live entries wait in the watcher meanwhile."""
        chunks: list[str] = []
        spans = {rollout: first or START for rollout, first in after.items()}
        for rollout in after:
            self.positions[rollout] = Position(self.ended.get(rollout, START))
        while spans:
            pages = await self.hub.past(
                {rollout_key(rollout): first for rollout, first in spans.items()}, PAGE
            )
            for rollout, entries in zip(list(spans), pages.values(), strict=True):
                resumed = after.pop(rollout, None)
                if resumed is not None and not self._resumes(rollout, entries, resumed):
                    spans[rollout] = START
                    continue
                chunks += [chunk for entry in entries for chunk in self.news(rollout, entry)]
                if len(entries) < PAGE:
                    del spans[rollout]
                else:
                    spans[rollout] = entries[-1].id
        return chunks

    def _resumes(self, rollout: int, entries: list[Entry], resumed: EntryId) -> bool:
        """Tell whether the last entry that the browser had is still there, with all after it."""
        if not entries or entries[0].id != resumed:
            self.without_past.add(rollout)
            return False
        self.news(rollout, entries.pop(0))
        return True

    def news(self, rollout: int, entry: Entry) -> list[str]:
        """Return the entry as JSON if the browser lacks it; stop following a rollout at its end."""
        position = self.positions.get(rollout)
        is_open = rollout in self.open_rollouts  # read before the end of the rollout removes it
        if position is None:
            return []
        is_news = position.takes(entry)
        if entry.chunk["t"] == "end" and entry.id == position.last:
            self._leave(rollout)
        return [entry.text if is_open else entry.blind_text] if is_news else []

    def hears_from_the_start(self, rollout: int) -> bool:
        """Tell whether the hub delivers this rollout's entries without a subscription.

        It does so for a rollout whose start was just announced.
        """
        if rollout not in self.positions and self.hub.puts(self.watcher, rollout_key(rollout)):
            self.positions[rollout] = Position(self.ended.get(rollout, START))
        return rollout in self.positions

    def _leave(self, rollout: int) -> None:
        self.hub.forget(self.watcher, [rollout_key(rollout)])
        self.ended[rollout] = self.positions.pop(rollout).last
        self.open_rollouts.discard(rollout)
        if len(self.ended) > MAX_ENDED:
            del self.ended[next(iter(self.ended))]

    def lost(self, key: str) -> None:
        """Note that Redis lost the past of a stream; later entries are still sent."""
        for rollout, position in self.positions.items():
            if rollout_key(rollout) == key:
                position.last = START
                self.without_past.add(rollout)


def read_after(text: str) -> dict[int, EntryId]:
    """Parse `17:1699-0,18:1700-3` into {17: (1699, 0), 18: (1700, 3)}. Raise ValueError."""
    parts = [part.partition(":") for part in text.split(",") if part]
    if len(parts) > MAX_RESUMED:
        raise ValueError(f"after: at most {MAX_RESUMED} rollouts")
    return {int(rollout): parse_entry_id(entry_id) for rollout, _, entry_id in parts}
