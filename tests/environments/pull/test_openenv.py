"""The openenv package's own server, in its own virtual environment, played over WebSockets."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from websockets.asyncio.server import serve

from apps.environments.models import Environment
from apps.environments.pull.errors import CallFailed, Full
from apps.environments.pull.openenv import OpenEnvSession
from apps.environments.pull.registering import check_service, register_service
from tests.openenv_process import openenv_server

ACTION = {
    "type": "object",
    "properties": {"guess": {"type": "string"}, "metadata": {"type": "object"}},
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with openenv_server(room=1) as where:
        yield where


@pytest.fixture
def guessing(address, settings) -> Environment:
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]
    return Environment(name="guess", kind="openenv", address=address, turn_s=30)


def played(environment: Environment, play: Callable[[OpenEnvSession], Awaitable]) -> object:
    async def inside() -> object:
        session = OpenEnvSession(environment)
        try:
            async with asyncio.timeout(30):
                return await play(session)
        finally:
            await session.close()

    return asyncio.run(inside())


def test_an_episode_is_played_on_the_packages_own_server(guessing):
    async def play(session):
        first = await session.begin(7, 5, {})
        steps = [await session.step(text) for text in ("4", "5")]
        return first, *steps, await session.state()

    first, wrong, right, state = played(guessing, play)
    assert (first.observation, first.reward, first.done) == ("guess", None, False)
    assert (wrong.observation, wrong.reward, wrong.done) == ("no", 0.0, False)
    assert (right.observation, right.reward, right.done) == ("yes", 1.0, True)
    assert (state["episode_id"], state["step_count"]) == ("7", 2)


def test_full_server_raises_full(guessing):
    async def play(session):
        await session.begin(1, 5, {})
        other = OpenEnvSession(guessing)
        with pytest.raises(Full, match="CAPACITY_REACHED"):
            await other.begin(2, 5, {})
        await other.close()

    played(guessing, play)


def test_an_error_inside_the_environment_fails_the_episode(guessing):
    async def play(session):
        await session.begin(1, 5, {})
        await session.step("crash")

    with pytest.raises(CallFailed, match="step: EXECUTION_ERROR: out of luck"):
        played(guessing, play)


def test_slow_response_is_awaited(guessing):
    async def play(session):
        await session.begin(1, 5, {})
        return await session.step("slow")

    assert played(guessing, play).observation == "no"


def test_action_rejected_by_the_server_gives_no_reward_and_the_episode_goes_on(guessing):
    guessing.action_schema = {
        "type": "object",
        "properties": {"guess": {"type": "string"}, "more": {"type": "string"}},
    }

    async def play(session):
        await session.begin(1, 5, {})
        return (
            await session.step('{"guesses": "5"}'),
            await session.step("five"),
            await session.step('{"guess": "5"}'),
        )

    refused, unread, right = played(guessing, play)
    assert (refused.reward, refused.done, unread.reward, right.reward) == (None, False, 0.0, 1.0)
    assert refused.observation.startswith("that is no action: step: VALIDATION_ERROR")


@pytest.mark.django_db
def test_check_stores_the_schemas_of_the_server(guessing, project):
    environment = register_service(project, "guess", "openenv", guessing.address)
    assert "'guess'" in check_service(environment)
    environment.refresh_from_db()
    assert environment.action_schema["properties"]["guess"]["type"] == "string"
    assert "answer" in environment.observation_schema["properties"]


# -- servers that behave differently from the package


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("{", "not strict JSON"),
        (
            '{"type": "observation", "data": {"observation": {}, "reward": NaN, "done": false}}',
            "NaN is not a number",
        ),
        (
            '{"type": "observation", "data": {"observation": {}, "done": false}}',
            "reward: required",
        ),
        (
            '{"type": "observation", "data": {"observation": "a", "reward": 0, "done": false}}',
            "observation must be an object",
        ),
        (
            '{"type": "observation", "data": {"observation": {}, "reward": 0, "done": "no"}}',
            "done true or false",
        ),
        ('{"type": "state", "data": {}}', "must be of type observation"),
        ("[]", "an object with type and data"),
        (
            '{"type": "error", "data": {"code": "FACTORY_ERROR", "message": "no"}}',
            "reset: FACTORY_ERROR: no",
        ),
        ("", "the connection was closed"),
    ],
)
def test_invalid_server_reply_fails_with_the_reason(settings, reply, reason):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]

    async def answer(connection) -> None:
        await connection.recv()
        if reply:
            await connection.send(reply)

    async def play() -> None:
        async with serve(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            environment = Environment(
                kind="openenv", address=f"ws://127.0.0.1:{port}", action_schema=ACTION
            )
            session = OpenEnvSession(environment)
            try:
                await session.begin(1, 5, {})
            finally:
                await session.close()

    with pytest.raises(CallFailed, match=reason):
        asyncio.run(play())


def test_a_redirect_is_not_followed(settings):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]

    def elsewhere(connection, request):
        response = connection.respond(302, "")
        response.headers["Location"] = "ws://127.0.0.1:9/ws"
        return response

    async def play() -> None:
        async with serve(
            lambda connection: None, "127.0.0.1", 0, process_request=elsewhere
        ) as server:
            port = server.sockets[0].getsockname()[1]
            session = OpenEnvSession(
                Environment(kind="openenv", address=f"ws://127.0.0.1:{port}", action_schema=ACTION)
            )
            await session.begin(1, 5, {})

    with pytest.raises(CallFailed, match="cannot be reached"):
        asyncio.run(play())
