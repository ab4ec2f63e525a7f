"""Blind raters get the replies of a run, but neither their weight versions nor the logprobs of
their tokens.
"""

import json

import pytest
from channels.db import database_sync_to_async
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from apps.runs.models import Run
from apps.streaming.chunks import ChunkWriter, topic_key
from apps.streaming.hub import BLIND, Entry
from apps.streaming.sockets import Socket
from tests.streaming.browser import Browser
from tests.streaming.test_live_socket import say

pytestmark = pytest.mark.django_db(transaction=True)


class Keeping(Browser):
    """A page that also stores the received chunks."""

    def play(self, chunk: dict) -> None:
        self.__dict__.setdefault("chunks", []).append(chunk)
        super().play(chunk)


@pytest.fixture
def topics(new_run, client) -> dict[str, int]:
    made = {"shut": new_run().topic_id, "free": new_run(people={"blind": False}).topic_id}
    client.delete(
        *(topic_key(topic) for topic in made.values())
    )  # an earlier database may have used the same ids
    return made


async def heard(browser: Browser, rollouts: dict[int, int]) -> dict[int, set[str]]:
    """Return the field names in the chunks of each rollout, both live and after a reconnect;
    `rollouts` is {rollout: topic}.
    """
    writers = {rollout: ChunkWriter(topic) for rollout, topic in rollouts.items()}
    for rollout, writer in writers.items():
        writer.started(rollout, 1, "why?", 41)
        writer.add(rollout, 0, "before ", (-0.5,), 41)
        writer.flush(at_once=True)
    async with browser.connect() as socket:
        while len(browser.texts) < len(rollouts):
            await browser.hear(socket)
        late = max(rollouts) + 1
        for writer in writers.values():
            await say(writer, late, ["begun while we listen"])
            late += 1
        while len(browser.ended) < len(rollouts):
            await browser.hear(socket)
    return {
        r: {name for chunk in browser.chunks if chunk["r"] == r for name in chunk}
        for r in browser.texts
    }


async def test_blind_rater_gets_only_the_text(serve, bobs, topics, fresh_id):
    names = await heard(Keeping(serve(), bobs, [topics["shut"]]), {fresh_id: topics["shut"]})
    assert len(names) == 2 and set().union(*names.values()) <= BLIND
    assert all({"x", "n", "o"} <= told for told in names.values())


async def test_owner_gets_versions_and_logprobs(serve, alices, topics, fresh_id):
    names = await heard(Keeping(serve(), alices, [topics["shut"]]), {fresh_id: topics["shut"]})
    assert all({"v", "lp"} <= told for told in names.values())


async def test_each_run_on_one_socket_follows_its_own_blind_setting(serve, bobs, topics, fresh_id):
    rollouts = {fresh_id: topics["shut"], fresh_id + 1: topics["free"]}
    names = await heard(Keeping(serve(), bobs, list(topics.values())), rollouts)
    assert {rollout: "v" in told for rollout, told in names.items()} == {
        fresh_id: False,
        fresh_id + 1: True,
        fresh_id + 2: False,
        fresh_id + 3: True,
    }


async def test_text_for_blind_users_is_created_once(fresh_id):
    entry = Entry(
        "rollout:1",
        (1, 0),
        {"r": 1, "t": "text", "o": 0, "n": 1, "x": "\u202e", "lp": [-1.0], "v": 3, "new": 1},
        "",
    )
    assert json.loads(entry.blind_text) == {
        "id": "1-0",
        "r": 1,
        "t": "text",
        "o": 0,
        "n": 1,
        "x": "\u202e",
    }
    assert entry.blind_text is entry.blind_text


async def test_events_for_blind_users_contain_no_rewards(serve, bobs, run):
    address = serve()
    await database_sync_to_async(run.topic.record)("step_committed", step=1, reward=0.25)
    await database_sync_to_async(run.topic.record)(
        "weights_published", version=9, step=1, fingerprint="f"
    )
    events: list[dict] = []
    url = f"{address}/ws/events/?topic={run.topic_id}&since=0"
    async with connect(
        url, origin=address.replace("ws:", "http:"), additional_headers=bobs, proxy=None
    ) as socket:
        while len(events) < 3:
            events += json.loads(await socket.recv()).get("events", [])
        await database_sync_to_async(run.topic.record)("step_committed", step=2, reward=0.5)
        while len(events) < 4:
            events += json.loads(await socket.recv()).get("events", [])
    told = [(event["kind"], event["payload"]) for event in events]
    assert told[1:] == [
        ("step_committed", {"step": 1}),
        ("weights_published", {}),
        ("step_committed", {"step": 2}),
    ]


async def test_socket_is_closed_for_a_reconnect_when_the_run_is_no_longer_blind(
    serve, bobs, topics, fresh_id, monkeypatch
):
    monkeypatch.setattr(Socket, "recheck_s", 0.2)
    browser = Keeping(serve(), bobs, [topics["shut"]])

    def lift() -> None:
        run = Run.objects.get(topic=topics["shut"])
        run.config["people"]["blind"] = False
        run.save()

    async with browser.connect() as socket:
        await browser.hear(socket)
        await database_sync_to_async(lift)()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await browser.hear(socket)
    assert closed.value.rcvd.code == 1012
    assert "v" in (await heard(browser, {fresh_id: topics["shut"]}))[fresh_id]
