"""An episode played over one socket on a real server: who may play, responses, and its end."""

import asyncio
import json
from collections.abc import Callable

import pytest
from channels.db import database_sync_to_async
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from apps.accounts.models import Membership, Token
from apps.environments.closing import abandon
from apps.environments.episode_changes import list_news
from apps.environments.episode_opening import assign_episode
from apps.environments.models import Episode, EpisodeTurn
from apps.environments.playing import Action, record_actions
from apps.policies.models import Policy
from apps.streaming.chunks import ChunkWriter, rollout_key
from apps.streaming.sockets import Socket
from apps.tasksets.models import Picture
from apps.tasksets.pictures import encode_picture
from tests.environments.agents.conftest import address, redis_of  # noqa: F401
from tests.streaming.conftest import alices, bobs, serve  # noqa: F401
from tests.tasksets.test_messages import HOW_MANY, data_url, png, shown

pytestmark = pytest.mark.django_db(transaction=True)
FIRST = {"type": "turn", "observation": "left or right?"}


@pytest.fixture
def episode(pushed, opened, alice) -> Episode:
    """Return an episode that alice plays."""
    opened(pushed)
    return assign_episode(pushed, alice)


@pytest.fixture
def secret(alice) -> str:
    return Token.issue(alice, "outside", ["env:write:outside"])[1]


@pytest.fixture
def knock(address, episode, secret) -> Callable[..., connect]:
    """Open the episode's socket, with alice's token unless other headers are given."""

    def make(headers: dict | None = None, pk: int | None = None, **more: object) -> connect:
        headers = {"Authorization": f"Bearer {secret}"} if headers is None else headers
        at = f"{address.replace('http:', 'ws:')}/ws/episodes/{pk or episode.pk}/"
        return connect(at, additional_headers=headers, proxy=None, **more)

    return make


def look(at: str) -> list[dict]:
    return [{"role": "user", "content": [shown(at), HOW_MANY]}]


async def hear(socket: ClientConnection, kind: str) -> dict:
    """Return the next frame of this type and skip others before it."""
    async with asyncio.timeout(60):
        while True:
            frame = json.loads(await socket.recv())
            if frame["type"] == kind:
                return frame


async def ask(socket: ClientConnection, said: object, kind: str) -> dict:
    await socket.send(said if isinstance(said, str | bytes) else json.dumps(said))
    return await hear(socket, kind)


async def closed_with(socket: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        async with asyncio.timeout(60):
            while True:
                await socket.recv()
    return closed.value.rcvd.code


async def acted(episode: Episode, number: int, text: str) -> None:
    """Record an action of the policy on this observation, as soon as the observation exists."""
    async with asyncio.timeout(60):
        while (await Episode.objects.aget(pk=episode.pk)).turns != number + 1:
            await asyncio.sleep(0.02)  # a poll; the deadline decides
    await database_sync_to_async(record_actions)(
        [Action(episode.pk, number, text, 10 * number, 3, 5)]
    )


async def problem(socket: ClientConnection, said: object) -> dict:
    return (await ask(socket, said, "error"))["problem"]


# -- playing


async def test_picture_is_stored_and_shown_to_the_policy(knock, episode):
    await Policy.objects.aupdate(sees_pictures=True)
    async with knock() as socket:
        await socket.send(json.dumps({"type": "turn", "observation": look(data_url(png()))}))
        assert await ask(socket, {"type": "ping"}, "pong")  # frames are done in their order
        [news] = await database_sync_to_async(list_news)({episode.pk: 0})
        await acted(episode, 0, "one")
        assert (await hear(socket, "turn"))["action"] == "one"
    picture = await Picture.objects.aget()
    assert bytes(picture.png) == encode_picture(png()).png
    [shown_part, words] = news.observation[0]["content"]
    assert (shown_part["picture"], words) == (picture.sha256, HOW_MANY)


async def test_invalid_picture_is_rejected_by_position_and_records_no_turn(knock, episode):
    await Policy.objects.aupdate(sees_pictures=True)
    async with knock() as socket:
        for at, why in (
            ("data:image/png;base64,aGVsbG8=", "is not a supported image"),
            ("https://a.example/1.png", "must be"),
        ):
            answer = await problem(socket, {"type": "turn", "observation": look(at)})
            [(field, [words])] = answer["errors"].items()
            assert (answer["status"], field) == (
                422,
                "observation[0].content[0].image_url.url",
            ) and why in words
    assert not await EpisodeTurn.objects.aexists() and not await Picture.objects.aexists()


async def test_text_only_policy_rejects_a_picture(knock, episode):
    async with knock() as socket:
        answer = await problem(socket, {"type": "turn", "observation": look(data_url(png()))})
    assert (
        answer["status"] == 422
        and "contains a picture" in answer["errors"]["observation[0].content"][0]
    )


async def test_an_episode_is_played_from_its_first_observation_to_its_end(knock, episode):
    async with knock() as socket:
        begun = await hear(socket, "episode")
        assert (begun["id"], begun["next"], begun["state"], begun["seed"]) == (
            episode.pk,
            0,
            "environment",
            episode.seed,
        )
        await socket.send(json.dumps(FIRST))
        assert (await ask(socket, {"type": "ping"}, "pong")) == {
            "type": "pong"
        }  # a waiting client is still served
        await acted(episode, 0, "left")
        answer = await hear(socket, "turn")
        assert (answer["number"], answer["action"], answer["tokens"], answer["next"]) == (
            0,
            "left",
            3,
            1,
        )
        later = {
            "type": "turn",
            "number": 1,
            "observation": "a wall",
            "reward": 0.25,
            "info": {"steps": 1},
        }
        await socket.send(json.dumps(later))
        await acted(episode, 1, "right")
        assert (await hear(socket, "turn"))["action"] == "right"
        assert (await ask(socket, {"type": "reward", "reward": 0.5}, "reward")) == {
            "type": "reward",
            "turn": 1,
            "is_late": False,
        }
        await socket.send(json.dumps({"type": "result", "reason": "out"}))
        heard = {
            frame["type"]: frame for frame in [json.loads(await socket.recv()) for _ in range(2)]
        }
        shown = heard["episode"]
        ended = heard["ended"]
        assert (shown["state"], shown["reason"], shown["next"], ended["reason"]) == (
            "done",
            "out",
            2,
            "out",
        )
    earned = await database_sync_to_async(
        lambda: list(EpisodeTurn.objects.values_list("number", "reward", "info"))
    )()
    assert sorted(earned, key=str) == [(0, 0.25, {}), (1, 0.5, {"steps": 1})]


async def test_repeated_turn_gets_the_same_answer_on_another_connection(knock, episode):
    async with knock() as socket:
        await socket.send(json.dumps({**FIRST, "number": 0}))
        assert await ask(socket, {"type": "ping"}, "pong")
    async with knock() as socket:
        await socket.send(json.dumps({**FIRST, "number": 0}))
        await acted(episode, 0, "left")
        assert (await hear(socket, "turn"))["action"] == "left"
        assert (await ask(socket, {**FIRST, "number": 0}, "turn"))["action"] == "left"
        assert (await problem(socket, {**FIRST, "number": 0, "observation": "another"}))[
            "status"
        ] == 409


async def test_action_is_streamed_on_request(knock, episode, redis_of):
    topic = (await Episode.objects.select_related("run").aget(pk=episode.pk)).run.topic_id
    redis_of.delete(rollout_key(episode.rollout_id))
    writer = ChunkWriter(topic)
    writer.started(episode.rollout_id, 1, "left or right?", 0)
    async with knock() as socket:
        await socket.send(json.dumps({**FIRST, "stream": True}))
        for offset, part in enumerate(["le", "ft"]):
            writer.add(episode.rollout_id, offset, part, (-0.5,), 0)
            writer.flush(at_once=True)
            assert await hear(socket, "text") == {"type": "text", "number": 0, "text": part}
        await acted(episode, 0, "left")
        assert (await hear(socket, "turn"))["action"] == "left"


async def test_player_is_notified_when_the_episode_ends_while_waiting(knock, episode):
    async with knock() as socket:
        await socket.send(json.dumps(FIRST))
        assert await ask(socket, {"type": "ping"}, "pong")
        await database_sync_to_async(abandon)(episode.pk, "its explorer has gone")
        heard = {
            frame["type"]: frame for frame in [json.loads(await socket.recv()) for _ in range(2)]
        }
        assert heard["ended"] == {
            "type": "ended",
            "state": "abandoned",
            "reason": "its explorer has gone",
        }
        assert (heard["turn"]["action"], heard["turn"]["reason"]) == (None, "its explorer has gone")
        assert (await problem(socket, {**FIRST, "number": 1}))["status"] == 410


# -- bad frames


BAD = [
    ("{", 400, None),
    ('{"type": "turn", "type": "turn"}', 400, None),
    ('{"type": "reward", "reward": NaN}', 400, None),
    ('{"type": "reward", "reward": 1e400}', 400, None),
    ("[1]", 422, "type"),
    ('{"type": "dance"}', 422, "type"),
    ('{"type": ["turn"]}', 422, "type"),
    ('{"type": "turn"}', 422, "observation"),
    ('{"type": "turn", "observation": "x", "number": true}', 422, "number"),
    ('{"type": "turn", "observation": [1]}', 422, "observation[0]"),
    ('{"type": "turn", "observation": "x", "reward": 1}', 422, "reward"),
    ('{"type": "turn", "observation": "x", "mood": 1}', 422, "mood"),
    ('{"type": "ping", "x": 1}', 422, "x"),
    ('{"type": "result", "reward": 1}', 422, "reward"),
    ('{"type": "reward", "reward": 1, "turn": 9}', 409, None),
]


async def test_invalid_frame_returns_a_problem_and_the_socket_stays_open(knock):
    async with knock() as socket:
        for said, status, field in BAD:
            met = await problem(socket, said)
            assert (met["status"], list(met.get("errors", {})) or [None]) == (status, [field]), said
        assert await ask(socket, {"type": "ping"}, "pong")


async def test_binary_or_too_long_frame_closes_the_socket(knock):
    for said, code in ((b'{"type": "ping"}', 1003), ("x" * 65_537, 1009), ("ü" * 33_000, 1009)):
        async with knock() as socket:
            await socket.send(said)
            assert await closed_with(socket) == code


async def test_too_many_frames_cause_a_warning_and_then_a_close(knock, settings):
    settings.REQUESTS_PER_SECOND = 2
    async with knock() as socket:
        for _ in range(11):
            await socket.send("{}")
        heard = [await hear(socket, "error") for _ in range(11)]
        assert 429 in {frame["problem"]["status"] for frame in heard}
        for _ in range(10):
            await socket.send("{}")
        assert await closed_with(socket) == 1008


# -- permissions


async def test_socket_opens_only_with_a_valid_token_of_the_player_and_the_scope(
    knock, episode, alice, bob, secret
):
    issue = database_sync_to_async(
        lambda person, *scopes: Token.issue(person, "x", list(scopes))[1]
    )
    refused = {
        "Bearer rft_usr_nonsense": 4401,
        "Basic YWxpY2U6eA==": 4401,
        f"Bearer {await issue(alice, 'env:write:other')}": 4403,
        f"Bearer {await issue(alice, 'read')}": 4403,
        f"Bearer {await issue(bob, 'env:write:*')}": 4403,
    }
    for words, code in refused.items():
        async with knock({"Authorization": words}) as socket:
            assert await closed_with(socket) == code, words
    async with knock(pk=episode.pk + 1000) as socket:
        assert await closed_with(socket) == 4403


async def test_person_can_play_only_from_our_own_origin(knock, address, alices, bobs):
    async with knock(alices, origin=address) as socket:
        assert await ask(socket, {"type": "ping"}, "pong")
    async with knock(bobs, origin=address) as socket:
        assert await closed_with(socket) == 4403
    for origin in ("https://evil.example", None):
        with pytest.raises(InvalidStatus, match="403"):
            await knock(alices, origin=origin)


@pytest.mark.parametrize("loses", ["the token", "the role"])
async def test_withdrawn_permission_closes_the_socket(knock, alice, monkeypatch, loses):
    monkeypatch.setattr(Socket, "recheck_s", 0.1)
    async with knock() as socket:
        assert await ask(socket, {"type": "ping"}, "pong")
        withdraw = Token.objects.get if loses == "the token" else Membership.objects.get
        row = await database_sync_to_async(withdraw)(user=alice)
        await database_sync_to_async(row.revoke if loses == "the token" else row.delete)()
        assert await closed_with(socket) == (4401 if loses == "the token" else 4403)


async def test_idle_socket_of_an_ended_episode_is_closed(knock, episode, monkeypatch):
    monkeypatch.setattr(Socket, "recheck_s", 0.1)
    async with knock() as socket:
        await ask(socket, {"type": "result", "outcome": "abandoned"}, "ended")
        assert await closed_with(socket) == 1000
