"""The live socket on a real server and a real Redis: complete, ordered and without duplicates,
whatever fails.
"""

import asyncio
import random

import pytest
from websockets.exceptions import ConnectionClosed

from apps.streaming.chunks import ChunkWriter, rollout_key, topic_key
from tests.streaming.browser import Browser

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def topic(run, client) -> int:
    client.delete(topic_key(run.topic_id))  # an earlier database may have used the same id
    return run.topic_id


@pytest.fixture
def browser(serve, bobs, topic) -> Browser:
    return Browser(serve(), bobs, [topic])


async def say(
    writer: ChunkWriter, rollout: int, words: list[str], pause_s: float = 0.01, start: bool = True
) -> None:
    """Write a rollout as an explorer does, one token per word."""
    if start:
        writer.started(rollout, 1, "why?", 0)
    for offset, word in enumerate(words):
        writer.add(rollout, offset, word, (-0.5,), 0)
        writer.flush()
        await asyncio.sleep(pause_s)
    writer.end(rollout, "stop")
    while writer.pending:
        writer.flush()
        await asyncio.sleep(pause_s)


def words_of(rollout: int) -> list[str]:
    return [f"{rollout}.{n} " for n in range(60)]


async def hear_until_ended(browser: Browser, rollouts: list[int]) -> None:
    async with browser.connect() as socket:
        while not set(rollouts) <= set(browser.ended):
            await browser.hear(socket)


async def test_rollout_is_streamed_from_start_to_end(browser, topic, fresh_id):
    async with browser.connect() as socket:
        await browser.hear(socket)
        writing = asyncio.create_task(say(ChunkWriter(topic), fresh_id, words_of(1)))
        while fresh_id not in browser.ended:
            await browser.hear(socket)
        await writing
    assert browser.texts[fresh_id] == "".join(words_of(1))
    assert browser.ended == {fresh_id: "stop"}


async def test_late_page_gets_running_rollouts_from_their_start_but_no_ended_ones(
    browser, topic, fresh_id
):
    writer = ChunkWriter(topic)
    ended = fresh_id
    living = fresh_id + 1
    await say(writer, ended, ["all over"])
    writer.started(living, 1, "", 0)
    writer.add(living, 0, "still ", (-1.0,), 0)
    while writer.pending:  # on a busy machine Redis may respond too late; then retry
        writer.flush(at_once=True)
        await asyncio.sleep(0.01)
    async with browser.connect() as socket:
        while not browser.texts.get(living):
            await browser.hear(socket)
    assert (browser.states, browser.texts) == (["live"], {living: "still "})


async def test_ten_pages_that_lose_their_connection_ten_times_get_everything_once(
    serve, bobs, topic, fresh_id
):
    address = serve()
    rollouts = [fresh_id + n for n in range(8)]
    browsers = [Browser(address, bobs, [topic]) for _ in range(10)]
    all_have_seen_all = asyncio.Barrier(len(browsers) + 1)

    async def write() -> None:
        writer = ChunkWriter(topic)
        for rollout in rollouts:
            writer.started(rollout, 1, "", 0)
        writer.flush()
        await all_have_seen_all.wait()
        speakers = [
            say(writer, rollout, words_of(rollout), 0.01 * (n + 1), start=False)
            for n, rollout in enumerate(rollouts)
        ]
        await asyncio.gather(*speakers)

    async def read(browser: Browser, generator: random.Random) -> None:
        async with browser.connect() as socket:
            while set(browser.texts) != set(rollouts):
                await browser.hear(socket)
            await all_have_seen_all.wait()
            socket.transport.abort()
        for _ in range(9):
            async with browser.connect() as socket:
                await browser.hear_for(socket, generator.uniform(0.02, 0.3))
                socket.transport.abort()
        await hear_until_ended(browser, rollouts)

    await asyncio.gather(
        write(), *(read(browser, random.Random(n)) for n, browser in enumerate(browsers))
    )
    for browser in browsers:
        assert browser.gone == []
        assert [browser.texts[rollout] for rollout in rollouts] == [
            "".join(words_of(rollout)) for rollout in rollouts
        ]


async def test_rollout_with_a_trimmed_stream_needs_a_snapshot_and_continues(
    browser, topic, fresh_id, client
):
    writer = ChunkWriter(topic)
    writer.started(fresh_id, 1, "", 0)
    for n in range(5):
        writer.add(fresh_id, n, "x", (-1.0,), 0)
        writer.next_flush = 0
        writer.flush()
    first = client.xrange(rollout_key(fresh_id), count=1)[0][0].decode()
    client.xtrim(rollout_key(fresh_id), maxlen=2, approximate=False)
    browser.last_ids = {fresh_id: first}
    browser.tokens = {fresh_id: 3}
    browser.turns = {fresh_id: ["xxx"]}
    async with browser.connect() as socket:
        while browser.tokens[fresh_id] < 5:
            await browser.hear(socket)
    assert browser.gone == [fresh_id]
    assert browser.tokens[fresh_id] == 5


async def test_rollout_of_a_foreign_topic_cannot_be_requested_by_id(browser, topic, fresh_id):
    stranger = fresh_id + 1
    secret = fresh_id + 2
    await say(ChunkWriter(stranger), secret, ["secret"])
    browser.last_ids = {secret: "0-1"}
    async with browser.connect() as socket:
        frame = await browser.hear(socket)
    assert frame == {"status": "live", "snapshot_needed": [secret]}


async def test_rollout_restarted_by_another_writer_is_shown_from_its_new_start(
    browser, topic, fresh_id
):
    dead = ChunkWriter(topic)
    heir = ChunkWriter(topic)
    dead.started(fresh_id, 1, "", 0)
    dead.add(fresh_id, 0, "cut off", (-1.0,), 0)
    dead.flush()
    async with browser.connect() as socket:
        await browser.hear(socket)
        await say(heir, fresh_id, ["anew"])
        while fresh_id not in browser.ended:
            await browser.hear(socket)
    assert browser.texts[fresh_id] == "anew"


async def test_redis_restart_pauses_the_view_and_loses_no_text(
    serve, bobs, topic, fresh_id, own_redis
):
    browser = Browser(serve(own_redis.url), bobs, [topic])
    writer = ChunkWriter(topic, own_redis.url)
    writer.started(fresh_id, 1, "", 0)
    writer.add(fresh_id, 0, "before ", (-1.0,), 0)
    writer.flush()
    async with browser.connect() as socket:
        while not browser.texts.get(fresh_id):
            await browser.hear(socket)
        own_redis.kill()
        writer.add(fresh_id, 1, "during ", (-1.0,), 0)
        writer.flush()
        while browser.states[-1] != "catching up":
            await browser.hear(socket)
        own_redis.start()
        writer.add(fresh_id, 2, "after", (-1.0,), 0)
        writer.end(fresh_id, "stop")
        while writer.pending:
            writer.next_flush = 0
            writer.flush()
        while fresh_id not in browser.ended:
            await browser.hear(socket)
    assert browser.texts[fresh_id] == "before during after"
    assert browser.states[-1] == "live"


async def test_page_opened_while_redis_is_down_waits_for_it(
    serve, bobs, topic, fresh_id, own_redis
):
    own_redis.kill()
    browser = Browser(serve(own_redis.url), bobs, [topic])
    async with browser.connect() as socket:
        await browser.hear(socket)
        assert browser.states == ["catching up"]
        own_redis.start()
        while browser.states[-1] != "live":
            await browser.hear(socket)
        await say(ChunkWriter(topic, own_redis.url), fresh_id, ["hello"])
        while fresh_id not in browser.ended:
            await browser.hear(socket)
    assert browser.texts[fresh_id] == "hello"


@pytest.mark.slow
async def test_idle_sockets_stay_open(serve, bobs, topic):
    address = serve()
    headers = bobs
    browsers = [Browser(address, headers, [topic]) for _ in range(5)]
    sockets = [await browser.connect() for browser in browsers]
    for browser, socket in zip(browsers, sockets, strict=True):
        await browser.hear(socket)
    closed = [asyncio.create_task(socket.wait_closed()) for socket in sockets]
    done, _ = await asyncio.wait(closed, timeout=16, return_when=asyncio.FIRST_COMPLETED)
    assert not done, "an idle socket was closed"
    for socket in sockets:
        await socket.close()


async def test_browser_that_reads_nothing_is_disconnected_with_a_retry_code(
    browser, topic, fresh_id, monkeypatch
):
    monkeypatch.setattr("apps.streaming.watcher.MAX_WAITING", 3)
    monkeypatch.setattr("apps.streaming.watcher.Watcher.__init__.__defaults__", (3, 0.5))
    async with browser.connect() as socket:
        await browser.hear(socket)
        writer = ChunkWriter(topic)
        for n in range(10):
            writer.started(fresh_id + n, 1, "", 0)
        writer.flush()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await browser.hear(socket)
    assert closed.value.rcvd.code == 4008
