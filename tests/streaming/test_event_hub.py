"""The one subscription of a web process to events, while Redis goes away."""

import asyncio

from channels_redis.pubsub import RedisPubSubChannelLayer

from apps.streaming.event_hub import EventHub
from apps.streaming.watcher import Watcher
from tests.ports import kept_port


async def test_a_hub_whose_watchers_leave_while_it_finds_redis_away_stays_empty():
    hub = EventHub()
    first = Watcher()
    second = Watcher()
    await hub.watch(first, ["run:1"])
    async with asyncio.timeout(60):
        while not hub.channel:  # it is subscribed
            await asyncio.sleep(0.01)
    keeper, port = kept_port()
    with keeper:
        hub.layer = RedisPubSubChannelLayer(hosts=[f"redis://127.0.0.1:{port}"])
        joining = asyncio.create_task(hub.watch(second, ["run:2"]))
        await asyncio.sleep(0)  # it waits for Redis now
        hub.forget(first)
        hub.forget(second)
        await asyncio.wait_for(joining, 60)
    assert hub.listener is None
