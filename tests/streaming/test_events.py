"""Run events: stored in PostgreSQL, announced over the channel layer, complete and in order in
the browser.
"""

import asyncio
import json

import pytest
from channels.db import database_sync_to_async
from django.db import transaction
from websockets.asyncio.client import ClientConnection, connect

from apps.streaming import consumers
from apps.streaming.consumers import EventsConsumer
from apps.streaming.models import Event, Topic

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def topic(run) -> Topic:
    """Return a topic with two events: one from the start of the run, and one more."""
    run.topic.record("step_done", step=1)
    return Topic.objects.get(pk=run.topic_id)


def opened(address: str, headers: dict[str, str], query: str) -> connect:
    return connect(
        f"{address}/ws/events/?{query}",
        origin=address.replace("ws:", "http:"),
        additional_headers=headers,
        proxy=None,
    )


@database_sync_to_async
def stored(topic: int, sequence: int) -> Event:
    return Event.objects.get(topic=topic, sequence=sequence)


async def frames_until(socket: ClientConnection, sequence: int) -> list[dict]:
    """Return the events up to this sequence number."""
    events: list[dict] = []
    async with asyncio.timeout(60):
        while not events or events[-1]["sequence"] < sequence:
            events += json.loads(await socket.recv()).get("events", [])
    return events


async def test_missed_events_come_first_and_then_new_ones(serve, alices, topic):
    async with opened(serve(), alices, f"topic={topic.pk}&since=0") as socket:
        events = await frames_until(socket, topic.sequence)
        assert [event["sequence"] for event in events] == list(range(1, topic.sequence + 1))
        assert json.loads(await socket.recv()) == {"at": {str(topic.pk): topic.sequence}}
        await database_sync_to_async(topic.record)("step_done", step=2)
        [event] = await frames_until(socket, topic.sequence + 1)
    assert (event["topic"], event["kind"], event["payload"]) == (topic.pk, "step_done", {"step": 2})
    assert event["at"] == (await stored(topic.pk, topic.sequence + 1)).at.isoformat()


async def test_without_since_no_earlier_events_are_sent(serve, bobs, topic):
    async with opened(serve(), bobs, f"topic={topic.pk}") as socket:
        assert json.loads(await socket.recv()) == {"at": {str(topic.pk): topic.sequence}}


async def test_unannounced_event_is_fetched_with_the_next_one(serve, bobs, topic, monkeypatch):
    async with opened(serve(), bobs, f"topic={topic.pk}") as socket:
        await socket.recv()
        with monkeypatch.context() as silent:
            silent.setattr("apps.streaming.worker_notifications.announce", lambda *event: None)
            await database_sync_to_async(topic.record)("lost", n=1)
        await database_sync_to_async(topic.record)("heard", n=2)
        events = await frames_until(socket, topic.sequence + 2)
    assert [event["kind"] for event in events] == ["lost", "heard"]


async def test_with_redis_dead_events_still_come_from_postgres(
    serve, bobs, topic, own_redis, monkeypatch
):
    monkeypatch.setattr(EventsConsumer, "poll_s", 0.2)
    address = serve(own_redis.url)
    own_redis.kill()
    async with opened(address, bobs, f"topic={topic.pk}") as socket:
        await socket.recv()
        await database_sync_to_async(topic.record)("quiet")
        assert (await frames_until(socket, topic.sequence + 1))[0]["kind"] == "quiet"


async def test_events_are_sent_after_redis_restarts(serve, bobs, topic, own_redis, monkeypatch):
    monkeypatch.setattr(EventsConsumer, "poll_s", 0.2)
    async with opened(serve(own_redis.url), bobs, f"topic={topic.pk}") as socket:
        await socket.recv()
        own_redis.kill()
        await database_sync_to_async(topic.record)("while away")
        await frames_until(socket, topic.sequence + 1)
        own_redis.start()
        await database_sync_to_async(topic.record)("back")
        assert [event["kind"] for event in await frames_until(socket, topic.sequence + 2)] == [
            "back"
        ]


async def test_events_of_many_writers_come_in_order_without_gaps(serve, bobs, topic):
    async with opened(serve(), bobs, f"topic={topic.pk}") as socket:
        await socket.recv()
        record = database_sync_to_async(topic.record, thread_sensitive=False)
        writing = asyncio.gather(*(record("n", n=n) for n in range(40)))
        events = await frames_until(socket, topic.sequence + 40)
        await writing
    assert [event["sequence"] for event in events] == list(
        range(topic.sequence + 1, topic.sequence + 41)
    )


async def test_after_a_long_absence_the_socket_says_what_it_skipped(
    serve, bobs, topic, monkeypatch
):
    monkeypatch.setattr(consumers, "MAX_MISSED", 1)
    async with opened(serve(), bobs, f"topic={topic.pk}&since=0") as socket:
        assert json.loads(await socket.recv()) == {"skipped": {str(topic.pk): topic.sequence}}
        assert [event["sequence"] for event in await frames_until(socket, topic.sequence)] == [
            topic.sequence
        ]


def test_rolled_back_event_leaves_no_trace(run):
    before = Topic.objects.get(pk=run.topic_id).sequence
    with pytest.raises(RuntimeError), transaction.atomic():
        run.topic.record("never")
        raise RuntimeError
    assert Topic.objects.get(pk=run.topic_id).sequence == before
    assert not Event.objects.filter(kind="never").exists()
