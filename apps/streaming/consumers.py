"""The two web sockets: live text of rollouts, and events of runs.

Formats: docs/sockets.md.
"""

import asyncio
from collections.abc import Iterable

from channels.db import database_sync_to_async

from apps.streaming.chunks import DEAD_REDIS
from apps.streaming.event_hub import EventHub
from apps.streaming.hub import Entry, Hub, RedisReachable, StreamLost
from apps.streaming.models import Event, Topic
from apps.streaming.replay import MAX_FRAME_BYTES, Replay, read_after
from apps.streaming.sockets import RESTARTING, Refused
from apps.streaming.topic_sockets import TOPICS_PER_SOCKET, TopicSocket

BACK_OFF_S = 1.0
POLL_S = 10.0
MAX_MISSED = 1000


class LiveConsumer(TopicSocket):
    """Live rollouts of topics, resumed after the last entries that the browser has.

    Address: `/ws/live/?topic=3&topic=7&after=501:1763-0,502:1764-0`.
    """

    hub: Hub | None = None

    def prepare(self) -> None:
        super().prepare()
        self.after = read_after(self.query.get("after", [""])[0])

    async def serve(self) -> None:
        self.hub = Hub.here()
        chunks = await self._begin(self.hub)
        await self._send([{"status": "live"}], chunks)
        while True:
            await self._forward(await self.watcher.take())

    def leave(self) -> None:
        if self.hub:
            self.hub.forget(self.watcher)

    async def _begin(self, hub: Hub) -> list[str]:
        """Start following the rollouts; wait for Redis as long as necessary."""
        while True:
            self.replay = Replay(hub, self.watcher, self.topic_ids, self.open_topics)
            try:
                return await self.replay.begin(self.after)
            except DEAD_REDIS:
                hub.forget(self.watcher)
                await self.send_json({"status": "catching up"})
                await asyncio.sleep(BACK_OFF_S)

    async def _forward(self, items: list[Entry | StreamLost | RedisReachable]) -> None:
        """Send what the hub delivered, and start following rollouts that have just begun."""
        states = []
        chunks = []
        begun = set()
        for item in items:
            match item:
                case RedisReachable(yes):
                    states.append({"status": "live" if yes else "catching up"})
                case StreamLost(key):
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
            # Nothing is lost: the browser reconnects with the ids of what it has.
            raise Refused(RESTARTING, "Redis was unavailable while rollouts started") from None

    async def _send(self, states: list[dict], chunks: list[str]) -> None:
        frame = dict(states[-1]) if states else {}
        if self.replay.without_past:
            frame["snapshot_needed"] = sorted(self.replay.without_past)
            self.replay.without_past.clear()
        if frame:
            await self.send_json(frame)
        for n in range(0, len(chunks), MAX_FRAME_BYTES):
            await self.send_frame(f'{{"chunks":[{",".join(chunks[n : n + MAX_FRAME_BYTES])}]}}')


class EventsConsumer(TopicSocket):
    """Events of topics, in order and without gaps.

    Address: `/ws/events/?topic=3&since=41`. Events are sent as they are announced; missed ones are
    read from Postgres.
    """

    hub: EventHub | None = None
    poll_s = POLL_S

    def prepare(self) -> None:
        super().prepare()
        self.since = dict(
            zip(self.topic_ids, self.numbers("since", limit=TOPICS_PER_SOCKET), strict=False)
        )

    async def serve(self) -> None:
        self.names = {name: topic for topic, name in self.topics.items()}
        self.hub = EventHub.here()
        # Subscribe first: an event recorded after reading Postgres is then received, and one that
        # was already read is dropped.
        await self.hub.watch(self.watcher, self.names)
        self.sent = await self._newest() | {
            topic: number for topic, number in self.since.items() if number >= 0
        }
        await self._refill(self.topic_ids)
        await self.send_json({"at": self.sent})
        while True:
            events = await self.watcher.take(self.poll_s)
            await (self._forward(events) if events else self._poll())

    def leave(self) -> None:
        if self.hub:
            self.hub.forget(self.watcher)

    async def _forward(self, messages: list[dict]) -> None:
        """Send announced events that are next in sequence; after a gap, read from Postgres."""
        events = []
        gaps = set()
        for message in messages:
            topic = self.names[message["topic"]]
            if topic not in gaps and message["sequence"] == self.sent[topic] + 1:
                self.sent[topic] += 1
                event = {
                    "topic": topic,
                    **{key: message[key] for key in ("sequence", "kind", "payload", "at")},
                }
                events.append(self._visible_event(event))
            elif message["sequence"] > self.sent[topic]:
                gaps.add(topic)
        if events:
            await self.send_json({"events": events})
        await self._refill(gaps)

    async def _poll(self) -> None:
        """Send the events that Postgres has and Redis did not announce."""
        newest = await self._newest()
        await self._refill([topic for topic, number in newest.items() if number > self.sent[topic]])

    async def _refill(self, topics: Iterable[int]) -> None:
        for topic in topics:
            events, skipped = await missed(topic, self.sent[topic])
            if skipped:
                await self.send_json({"skipped": {topic: skipped}})
            if events:
                self.sent[topic] = events[-1]["sequence"]
                await self.send_json({"events": [self._visible_event(event) for event in events]})

    def _visible_event(self, event: dict) -> dict:
        """Return the event as this person may see it.

        Without access to ratings, the payload is reduced; that the event happened is always shown.
        """
        is_open = event["topic"] in self.open_topics
        return (
            event
            if is_open
            else {**event, "payload": self.sight.blind_payload(event["kind"], event["payload"])}
        )

    @database_sync_to_async
    def _newest(self) -> dict[int, int]:
        return dict(Topic.objects.filter(pk__in=self.topic_ids).values_list("pk", "sequence"))


@database_sync_to_async
def missed(topic: int, since: int) -> tuple[list[dict], int]:
    """Return a topic's newest events after `since`, oldest first.

    The second value is the sequence number of the first of them if older ones were skipped, else 0.
    """
    newest = Event.objects.filter(topic=topic, sequence__gt=since).order_by("-sequence")[
        :MAX_MISSED
    ]
    events = [
        {
            "topic": topic,
            "sequence": event.sequence,
            "kind": event.kind,
            "payload": event.payload,
            "at": event.at.isoformat(),
        }
        for event in reversed(newest)
    ]
    first = events[0]["sequence"] if events else 0
    return events, first if first > since + 1 else 0
