"""The text of a turn while it is written."""

import asyncio

import pytest

from apps.environments.turn_text import stream_turn_text
from apps.streaming.chunks import ChunkWriter, rollout_key
from apps.streaming.hub import Hub
from tests.streaming.conftest import client, fresh_id  # noqa: F401


@pytest.fixture
def writer(client, fresh_id) -> ChunkWriter:
    client.delete(rollout_key(fresh_id))
    return ChunkWriter(fresh_id)


async def test_only_text_after_the_last_action_is_streamed_until_the_answer(writer, fresh_id):
    writer.started(fresh_id, 1, "", 0)
    writer.add(fresh_id, 0, "what another explorer's attempt said", (-0.5,) * 9, 0)
    writer.started(fresh_id, 1, "", 0)
    writer.add(fresh_id, 0, "before", (-0.5,) * 3, 0)
    writer.turn(fresh_id, 3, 4, "a wall")
    writer.add(fresh_id, 7, "left", (-0.5,), 0)
    writer.flush(at_once=True)
    answer = asyncio.get_running_loop().create_future()
    heard = []
    async for piece in stream_turn_text(fresh_id, 3, answer):
        heard.append(piece)
        answer.set_result(None)
    assert heard == ["left"]


async def test_stream_ends_when_its_reader_leaves(writer, fresh_id):
    writer.started(fresh_id, 1, "", 0)
    writer.add(fresh_id, 0, "left", (-0.5,), 0)
    writer.flush(at_once=True)
    written = stream_turn_text(fresh_id, 0, asyncio.get_running_loop().create_future())
    assert await anext(written) == "left"
    await written.aclose()
    assert Hub.here().streams == {}
