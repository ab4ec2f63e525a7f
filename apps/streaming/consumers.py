"""The two sockets: what rollouts say while they say it, and what happens to runs. Formats: docs/sockets.md."""

import asyncio
from collections.abc import Iterable

from channels.db import database_sync_to_async

from apps.streaming.chunks import DEAD_REDIS
from apps.streaming.event_hub import EventHub
from apps.streaming.hub import Entry, Hub, Lost, Reachable
from apps.streaming.models import Event, Topic
from apps.streaming.replay import LONGEST_FRAME, Replay, read_after
from apps.streaming.sockets import RESTARTING, Refused
from apps.streaming.topic_sockets import TOPICS_PER_SOCKET, TopicSocket

BACK_OFF_S = 1.0
POLL_S = 10.0
MOST_MISSED = 1000


class LiveConsumer(TopicSocket):
    """`/ws/live/?topic=3&topic=7&after=501:1763-0,502:1764-0`: live rollouts of topics, resumed where the browser stopped."""

    hub: Hub | None = None

    def prepare(self) -> None:
        super().prepare()
        self.after = read_after(self.query.get("after", [""])[0])

    async def serve(self) -> None:
        self.hub = Hub.here()
        chunks = await self._begin()
        await self._send([{"status": "live"}], chunks)
        while True:
            await self._forward(await self.watcher.take())

    def leave(self) -> None:
        if self.hub:
            self.hub.forget(self.watcher)

    async def _begin(self) -> list[str]:
        """Take up the rollouts, waiting for Redis as long as need be."""
        while True:
            self.replay = Replay(self.hub, self.watcher, self.topic_ids, self.open_topics)
            try:
                return await self.replay.begin(self.after)
            except DEAD_REDIS:
                self.hub.forget(self.watcher)
                await self.send_json({"status": "catching up"})
                await asyncio.sleep(BACK_OFF_S)

    async def _forward(self, items: list[Entry | Lost | Reachable]) -> None:
        """One frame's worth of news; rollouts that have just begun are followed from now on."""
        states, chunks, begun = [], [], set()
        for item in items:
            match item:
                case Reachable(yes):
                    states.append({"status": "live" if yes else "catching up"})
                case Lost(key):
                    self.replay.lost(key)
                case Entry(key, _, chunk) if key.startswith("live:"):
                    self.replay.hear_announced(item)
                    if chunk["t"] == "started" and not self.replay.hears_from_the_start(chunk["r"]):
                        begun.add(chunk["r"])
                case Entry(_, _, chunk):
                    chunks += self.replay.news(chunk["r"], item)
        chunks += await self._follow(begun - set(self.replay.positions))
        await self._send(states, chunks)

    async def _follow(self, begun: set[int]) -> list[str]:
        if not begun:
            return []
        try:
            return await self.replay.follow(dict.fromkeys(sorted(begun)))
        except DEAD_REDIS:
            # Nothing is lost by it: the browser comes back with the ids of what it has.
            raise Refused(RESTARTING, "Redis went away while rollouts began") from None

    async def _send(self, states: list[dict], chunks: list[str]) -> None:
        frame = dict(states[-1]) if states else {}
        if self.replay.gone:
            frame["snapshot_needed"] = sorted(self.replay.gone)
            self.replay.gone.clear()
        if frame:
            await self.send_json(frame)
        for n in range(0, len(chunks), LONGEST_FRAME):
            await self.send_frame(f'{{"chunks":[{",".join(chunks[n : n + LONGEST_FRAME])}]}}')


class EventsConsumer(TopicSocket):
    """`/ws/events/?topic=3&since=41`: events in order, without gaps; announced ones as they come, missed ones from Postgres."""

    hub: EventHub | None = None
    poll_s = POLL_S

    def prepare(self) -> None:
        super().prepare()
        self.since = dict(zip(self.topic_ids, self.numbers("since", most=TOPICS_PER_SOCKET), strict=False))

    async def serve(self) -> None:
        self.names = {name: topic for topic, name in self.topics.items()}
        self.hub = EventHub.here()
        # Watched first: what is recorded after the look at Postgres is heard, and dropped when it was seen there.
        await self.hub.watch(self.watcher, self.names)
        self.sent = await self._newest() | {topic: number for topic, number in self.since.items() if number >= 0}
        await self._refill(self.topic_ids)
        await self.send_json({"at": self.sent})
        while True:
            heard = await self.watcher.take(self.poll_s)
            await (self._forward(heard) if heard else self._poll())

    def leave(self) -> None:
        if self.hub:
            self.hub.forget(self.watcher)

    async def _forward(self, heard: list[dict]) -> None:
        """Send the announced events that come next; where one is missing, everything missed."""
        events, gaps = [], set()
        for message in heard:
            topic = self.names[message["topic"]]
            if topic not in gaps and message["sequence"] == self.sent[topic] + 1:
                self.sent[topic] += 1
                event = {"topic": topic, **{key: message[key] for key in ("sequence", "kind", "payload", "at")}}
                events.append(self._told(event))
            elif message["sequence"] > self.sent[topic]:
                gaps.add(topic)
        if events:
            await self.send_json({"events": events})
        await self._refill(gaps)

    async def _poll(self) -> None:
        """After a silence: what Redis did not tell is in Postgres."""
        newest = await self._newest()
        await self._refill([topic for topic, number in newest.items() if number > self.sent[topic]])

    async def _refill(self, topics: Iterable[int]) -> None:
        for topic in topics:
            events, skipped = await missed(topic, self.sent[topic])
            if skipped:
                await self.send_json({"skipped": {topic: skipped}})
            if events:
                self.sent[topic] = events[-1]["sequence"]
                await self.send_json({"events": [self._told(event) for event in events]})

    def _told(self, event: dict) -> dict:
        """The event as this person may hear it: that it happened, always."""
        is_open = event["topic"] in self.open_topics
        return event if is_open else {**event, "payload": self.sight.told(event["kind"], event["payload"])}

    @database_sync_to_async
    def _newest(self) -> dict[int, int]:
        return dict(Topic.objects.filter(pk__in=self.topic_ids).values_list("pk", "sequence"))


@database_sync_to_async
def missed(topic: int, since: int) -> tuple[list[dict], int]:
    """The topic's newest events after `since`, oldest first, and the first of them when older ones are left out (else 0)."""
    newest = Event.objects.filter(topic=topic, sequence__gt=since).order_by("-sequence")[:MOST_MISSED]
    events = [
        {"topic": topic, "sequence": event.sequence, "kind": event.kind, "payload": event.payload, "at": event.at.isoformat()}
        for event in reversed(newest)
    ]
    first = events[0]["sequence"] if events else 0
    return events, first if first > since + 1 else 0
