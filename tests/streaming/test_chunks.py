"""The explorer's chunk writer: what it sends and when, and that a dead Redis does not harm it."""

import json
import socket
import time
from types import SimpleNamespace

import pytest
import redis

from apps.streaming import chunks
from apps.streaming.chunks import ChunkWriter


def written(client, rollout_id: int) -> list[dict]:
    return [json.loads(entry[b"c"]) for _, entry in client.xrange(chunks.rollout_key(rollout_id))]


def now(writer: ChunkWriter) -> None:
    """Flush without waiting for the coalescing interval."""
    writer.next_flush = 0.0
    writer.flush()


def test_text_of_one_version_is_merged_into_one_chunk(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.started(fresh_id, 5, "why?", 3)
    writer.add(fresh_id, 0, "He", (-0.12345, -1.0), 3)
    writer.add(fresh_id, 2, "llo", (-0.5,), 3)
    writer.flush()
    assert written(client, fresh_id) == [
        {"r": fresh_id, "t": "started", "topic": fresh_id, "group": 5, "question": "why?", "v": 3},
        {
            "r": fresh_id,
            "t": "text",
            "o": 0,
            "n": 3,
            "x": "Hello",
            "lp": [-0.123, -1.0, -0.5],
            "v": 3,
            "w": [0, 2, 3],
        },
    ]


def test_new_weight_version_starts_a_new_chunk(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.add(fresh_id, 0, "a", (-1.0,), 3)
    writer.add(fresh_id, 1, "b", (-1.0,), 4)
    writer.flush()
    assert [(chunk["x"], chunk["v"]) for chunk in written(client, fresh_id)] == [("a", 3), ("b", 4)]


@pytest.fixture
def standing_clock(monkeypatch) -> None:
    """Stop the writer's clock, however busy the machine is."""
    now = time.monotonic()
    monkeypatch.setattr(chunks, "time", SimpleNamespace(monotonic=lambda: now))


def test_flushes_within_50_ms_are_delayed(client, fresh_id, standing_clock):
    writer = ChunkWriter(fresh_id)
    writer.add(fresh_id, 0, "a", (-1.0,), 0)
    writer.flush()
    writer.add(fresh_id, 1, "b", (-1.0,), 0)
    writer.flush()
    assert len(written(client, fresh_id)) == 1
    now(writer)
    assert len(written(client, fresh_id)) == 2


def test_starts_and_ends_are_announced_to_the_topic_and_streams_expire(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.started(fresh_id, 5, "", 0)
    writer.add(fresh_id, 0, "a", (-1.0,), 0)
    writer.end(fresh_id, "stop")
    writer.flush()
    announced = [
        json.loads(entry[b"c"])["t"] for _, entry in client.xrange(chunks.topic_key(fresh_id))
    ]
    assert announced == ["started", "end"]
    assert 0 < client.ttl(chunks.rollout_key(fresh_id)) <= chunks.ENDED_KEPT_S
    assert chunks.ENDED_KEPT_S < client.ttl(chunks.topic_key(fresh_id)) <= chunks.KEPT_S


def test_stream_of_an_unfinished_rollout_is_kept_longer(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.started(fresh_id, 5, "", 0)
    writer.add(fresh_id, 0, "a", (-1.0,), 0)
    writer.flush()
    assert chunks.ENDED_KEPT_S < client.ttl(chunks.rollout_key(fresh_id)) <= chunks.KEPT_S


def test_logprob_that_is_not_finite_is_written_as_null(client, fresh_id):
    writer = ChunkWriter(fresh_id)
    writer.add(fresh_id, 0, "\x00\ud800", (float("-inf"),), 0)
    writer.flush()
    assert written(client, fresh_id)[0]["lp"] == [None]


def test_dead_redis_costs_little_time_and_pending_text_arrives_later(own_redis, fresh_id):
    own_redis.kill()
    writer = ChunkWriter(fresh_id, own_redis.url)
    began = time.monotonic()
    for offset in range(500):
        writer.add(fresh_id, offset, "x", (-1.0,), 0)
        writer.flush()
    assert time.monotonic() - began < 10  # 1/50 s each is much more than it takes
    own_redis.start()
    now(writer)
    assert (
        "".join(chunk["x"] for chunk in written(redis.Redis.from_url(own_redis.url), fresh_id))
        == "x" * 500
    )


def test_unresponsive_redis_is_tried_only_once(fresh_id, standing_clock):
    assert chunks.TIMEOUT_S == 1.0  # for the connection, and for the response
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.setblocking(False)
        writer = ChunkWriter(fresh_id, f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        for offset in range(500):
            writer.add(fresh_id, offset, "x", (-1.0,), 0)
            writer.flush()
        silent.accept()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_pending_chunks_are_limited_while_redis_is_down(own_redis, fresh_id):
    own_redis.kill()
    writer = ChunkWriter(fresh_id, own_redis.url)
    for rollout_id in range(chunks.MAX_PENDING + 100):
        writer.add(rollout_id, 0, "x", (-1.0,), 0)
    now(writer)
    assert len(writer.pending) == chunks.MAX_PENDING
