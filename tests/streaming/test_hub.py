"""The single reader of a web process: it reads only while somebody watches."""

import asyncio

from django.conf import settings

from apps.streaming.chunks import ChunkWriter, rollout_key
from apps.streaming.hub import Hub
from apps.streaming.watcher import Watcher
from tests.streaming.conftest import client, fresh_id  # noqa: F401

TURNS_OF_THE_LOOP = 60  # from the start of the reader until it waits for new chunks


async def test_reader_ends_with_its_last_watcher_in_any_state(client, fresh_id):
    client.delete(rollout_key(fresh_id))
    writer = ChunkWriter(fresh_id)
    writer.started(fresh_id, 1, "", 0)
    writer.flush(at_once=True)
    hub = Hub(settings.REDIS_URL)
    watcher = Watcher()
    for turns in range(TURNS_OF_THE_LOOP):
        await hub.watch(watcher, [rollout_key(fresh_id)])
        reader = hub.reader
        for _ in range(turns):
            await asyncio.sleep(0)
        hub.forget(watcher)
        ended, _ = await asyncio.wait({reader}, timeout=60)
        assert ended, f"still reading, released after {turns} turns of the event loop"
