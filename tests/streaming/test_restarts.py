"""The web process is killed while a page listens: the page reconnects with its last ids and gets
every token once, edits included.
"""

import asyncio
from collections.abc import Iterator

import pytest
from websockets.exceptions import WebSocketException

from apps.streaming.chunks import ChunkWriter, topic_key
from tests.streaming.browser import Browser
from tests.web_process import WebProcess

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
KILLS = 3
KEPT = 5


@pytest.fixture
def web(transactional_db) -> Iterator[WebProcess]:
    process = WebProcess()
    process.start()
    yield process
    process.kill()


async def test_browser_gets_every_token_once_when_the_web_process_is_killed_repeatedly(
    web, bobs, run, client, fresh_id
):
    client.delete(topic_key(run.topic_id))
    browser = Browser(web.address.replace("http:", "ws:"), bobs, [run.topic_id])
    is_over = asyncio.Event()
    expected = [""]

    async def write() -> None:
        writer = ChunkWriter(run.topic_id)
        place = 0
        n = 0
        writer.started(fresh_id, 1, "why?", 0)
        while not is_over.is_set() or n < 200:
            word = f"w{n} "
            if n % 50 == 49:  # an edit keeps the first five words and continues from there
                expected[0] = (
                    "".join(expected[0].split(" ", KEPT)[i] + " " for i in range(KEPT))
                    + f"edit{n} "
                )
                keep = len(expected[0]) - len(f"edit{n} ")
                writer.edit(fresh_id, 0, KEPT, keep, f"edit{n} ", 1, "alice")
                place = KEPT + 1
            else:
                writer.add(fresh_id, place, word, (-0.5,), 0)
                expected[0] += word
                place += 1
            writer.flush()
            n += 1
            await asyncio.sleep(0.02)
        writer.end(fresh_id, "stop")
        writer.flush(at_once=True)

    async def read() -> None:
        while fresh_id not in browser.ended:
            try:
                async with browser.connect() as socket:
                    while fresh_id not in browser.ended:
                        await browser.hear(socket)
            except (OSError, WebSocketException):
                connections.append(len(browser.last_ids))
                await asyncio.sleep(0.05)

    async def kill() -> None:
        for _ in range(KILLS):
            heard = browser.last_ids.get(fresh_id)
            while browser.last_ids.get(fresh_id) == heard:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(web.kill)
            await asyncio.to_thread(web.start)
        is_over.set()

    connections: list[int] = []
    async with asyncio.timeout(500):
        await asyncio.gather(write(), read(), kill())
    assert browser.texts[fresh_id] == expected[0] and "edit" in expected[0]
    assert browser.gone == [] and len(connections) >= KILLS
