"""Edits and users' turns on the live page: nothing is lost or doubled, even across edits and lost
connections.
"""

import asyncio
import json
import random

import pytest

from apps.streaming.chunks import ChunkWriter, rollout_key, topic_key
from apps.streaming.hub import decode_entry
from apps.streaming.replay import Position
from tests.streaming.browser import Browser

pytestmark = pytest.mark.django_db(transaction=True)


def written(client, rollout_id: int) -> list[dict]:
    return [json.loads(entry[b"c"]) for _, entry in client.xrange(rollout_key(rollout_id))]


def send(writer: ChunkWriter) -> None:
    writer.next_flush = 0.0
    writer.flush()


@pytest.fixture
def topic(run, client) -> int:
    client.delete(topic_key(run.topic_id))
    return run.topic_id


# -- the writer


def test_edit_chunk_has_the_kept_length_and_the_new_text_and_later_text_counts_it(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.started(fresh_id, 5, "why?", 3)
    writer.add(fresh_id, 0, "Hello you", (-1.0,) * 3, 3)
    writer.edit(fresh_id, 0, 1, 5, " dear", 2, "alice")
    writer.add(fresh_id, 3, " friend", (-1.0,), 3)
    send(writer)
    edit, text = written(client, fresh_id)[2:]
    assert edit == {
        "r": fresh_id,
        "t": "edit",
        "turn": 0,
        "o": 1,
        "keep": 5,
        "n": 2,
        "x": " dear",
        "by": "alice",
        "e": 1,
    }
    assert text["e"] == 1 and (text["o"], text["n"], text["x"]) == (3, 1, " friend")


def test_user_turns_and_holds_are_separate_chunks(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.add(fresh_id, 0, "a", (-1.0,), 0)
    writer.turn(fresh_id, 1, 4, "And then?")
    writer.add(fresh_id, 5, "b", (-1.0,), 0)
    writer.held(fresh_id, "alice", 60.0)
    writer.freed(fresh_id)
    writer.add(fresh_id, 6, "c", (-1.0,), 0)
    send(writer)
    said = written(client, fresh_id)
    assert [chunk["t"] for chunk in said] == ["text", "turn", "text", "held", "freed", "text"]
    assert said[1] == {"r": fresh_id, "t": "turn", "o": 1, "n": 4, "x": "And then?"}
    assert said[3] == {"r": fresh_id, "t": "held", "by": "alice", "s": 60.0}


def test_only_starts_and_ends_are_announced_to_the_topic(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.started(fresh_id, 5, "", 0)
    writer.edit(fresh_id, 0, 0, 0, "x", 1, "alice")
    writer.turn(fresh_id, 1, 1, "y")
    writer.held(fresh_id, "alice", 1.0)
    writer.end(fresh_id, "stop")
    send(writer)
    assert [json.loads(entry[b"c"])["t"] for _, entry in client.xrange(topic_key(fresh_id))] == [
        "started",
        "end",
    ]


def test_restarted_rollout_has_no_edits(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.edit(fresh_id, 0, 0, 0, "x", 1, "alice")
    writer.started(fresh_id, 5, "", 0)
    writer.add(fresh_id, 0, "a", (-1.0,), 0)
    send(writer)
    assert "e" not in written(client, fresh_id)[-1]


# -- positions of a browser


def entries(chunks: list[dict]) -> list:
    return [
        decode_entry("rollout:1", f"{n + 1}-0".encode(), {b"c": json.dumps(chunk).encode()})
        for n, chunk in enumerate(chunks)
    ]


BEFORE = {"t": "text", "o": 0, "n": 10, "x": "0123456789"}
EDIT = {"t": "edit", "turn": 0, "o": 2, "keep": 2, "n": 1, "x": "!", "by": "alice", "e": 1}
AFTER = {"t": "text", "o": 3, "n": 2, "x": "ab", "e": 1}
AGAIN = {"t": "edit", "turn": 0, "o": 4, "keep": 4, "n": 1, "x": "?", "by": "bob", "e": 2}


@pytest.mark.parametrize(
    "chunks, news",
    [
        ([BEFORE, EDIT, AFTER, AGAIN], [True, True, True, True]),
        ([BEFORE, EDIT, AFTER, BEFORE, EDIT, AFTER], [True, True, True, False, False, False]),
        # Text before the edit is old even if its offset is behind later text.
        ([EDIT, {**BEFORE, "o": 7}], [True, False]),
        ([EDIT, EDIT, AFTER, AGAIN, EDIT], [True, False, True, True, False]),
        ([AFTER, AGAIN, {"t": "turn", "o": 5, "n": 3, "x": "and?", "e": 2}], [True, True, True]),
        ([AGAIN, {"t": "started"}, BEFORE], [True, True, True]),
    ],
)
def test_chunks_that_a_retry_wrote_twice_are_dropped_across_edits(chunks, news):
    position = Position()
    assert [position.takes(entry) for entry in entries(chunks)] == news


# -- browsers


class Author:
    """Writes a rollout as an explorer does, and knows its expected text."""

    def __init__(self, topic: int, rollout: int, seed: int) -> None:
        self.writer, self.rollout, self.draw = ChunkWriter(topic), rollout, random.Random(seed)
        self.tokens: list[str] = []  # one word per token
        self.firsts = [0]  # first token of each turn

    @property
    def turns(self) -> list[str]:
        ends = [*self.firsts[1:], len(self.tokens)]
        return [
            "".join(self.tokens[first:end]) for first, end in zip(self.firsts, ends, strict=True)
        ]

    def begin(self) -> None:
        self.writer.started(self.rollout, 1, "why?", 0)
        send(self.writer)

    def word(self, mark: str) -> str:
        return f"{mark}{self.draw.randrange(1000)} "

    def say(self) -> None:
        word = self.word("p")
        self.writer.add(self.rollout, len(self.tokens), word, (-0.5,), 0)
        self.tokens.append(word)

    def edit(self) -> None:
        turn = self.draw.randrange(0, len(self.firsts), 2)
        ends = [*self.firsts[1:], len(self.tokens)]
        kept = self.draw.randint(self.firsts[turn], ends[turn])
        typed = [self.word("t") for _ in range(self.draw.randint(0, 3))]
        keep = len("".join(self.tokens[self.firsts[turn] : kept]))
        self.writer.edit(self.rollout, turn, kept, keep, "".join(typed), len(typed), "alice")
        del self.firsts[turn + 1 :], self.tokens[kept:]
        self.tokens += typed

    def hear(self) -> None:
        self.firsts.append(len(self.tokens))
        word = self.word("u")
        self.writer.turn(self.rollout, len(self.tokens), 1, word)
        self.tokens.append(word)
        self.firsts.append(len(self.tokens))

    async def write(self, acts: int, pause_s: float) -> None:
        for _ in range(acts):
            self.draw.choices([self.say, self.edit, self.hear], [12, 2, 1])[0]()
            self.writer.flush()
            await asyncio.sleep(pause_s)
        self.writer.end(self.rollout, "stop")
        while self.writer.pending:
            self.writer.flush()
            await asyncio.sleep(pause_s)


async def test_pages_that_lose_their_connection_repeatedly_follow_edits_and_turns(
    serve, bobs, topic, fresh_id
):
    address = serve()
    authors = [Author(topic, fresh_id + n, n) for n in range(4)]
    browsers = [Browser(address, bobs, [topic]) for _ in range(4)]
    all_have_seen_all = asyncio.Barrier(len(browsers) + 1)
    for author in authors:
        author.begin()

    async def write() -> None:
        await all_have_seen_all.wait()
        await asyncio.gather(*(author.write(120, 0.01) for author in authors))

    async def read(browser: Browser, draw: random.Random) -> None:
        async with browser.connect() as socket:
            while len(browser.turns) < len(authors):
                await browser.hear(socket)
            await all_have_seen_all.wait()
        while len(browser.ended) < len(authors):
            async with browser.connect() as socket:
                await browser.hear_for(socket, draw.uniform(0.02, 0.3))
                socket.transport.abort()

    await asyncio.gather(
        write(), *(read(browser, random.Random(n)) for n, browser in enumerate(browsers))
    )
    assert any(len(author.firsts) > 1 for author in authors)
    for browser in browsers:
        assert browser.gone == []
        assert browser.turns == {a.rollout: a.turns for a in authors}


async def test_web_restart_after_an_edit_neither_loses_nor_doubles_text(
    serve, bobs, topic, fresh_id
):
    author = Author(topic, fresh_id, 3)
    browser = Browser(serve(), bobs, [topic])
    author.begin()
    for _ in range(6):
        author.say()
    send(author.writer)
    async with browser.connect() as socket:
        while browser.tokens.get(fresh_id, 0) < 6:
            await browser.hear(socket)
        author.edit()
        send(author.writer)
        while browser.tokens[fresh_id] != len(author.tokens):
            await browser.hear(socket)
    author.say()
    author.edit()
    author.hear()
    send(author.writer)
    browser.address = serve()  # another process has no state of the first one's sockets
    async with browser.connect() as socket:
        await author.write(3, 0.01)
        while fresh_id not in browser.ended:
            await browser.hear(socket)
    assert browser.turns[fresh_id] == author.turns and browser.gone == []


async def test_late_page_shows_an_edited_rollout_in_its_current_state(serve, bobs, topic, fresh_id):
    author = Author(topic, fresh_id, 7)
    browser = Browser(serve(), bobs, [topic])
    author.begin()
    for act in (
        author.say,
        author.say,
        author.edit,
        author.say,
        author.hear,
        author.say,
        author.edit,
    ):
        act()
        send(author.writer)
    author.writer.held(fresh_id, "alice", 60.0)
    send(author.writer)
    async with browser.connect() as socket:
        while not browser.held.get(fresh_id):
            await browser.hear(socket)
    assert browser.turns[fresh_id] == author.turns
