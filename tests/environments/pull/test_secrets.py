"""Secrets of the installation: each is sent only to its own host, over TLS or loopback, and never
shown.
"""

import asyncio
import json

import pytest
from websockets.asyncio.server import serve

from apps.environments.models import Environment
from apps.environments.pull.addresses import parse_address
from apps.environments.pull.errors import BadAddress, CallFailed
from apps.environments.pull.http import HttpSession
from apps.environments.pull.openenv import OpenEnvSession
from apps.environments.pull.secrets import find_secret
from tests.guessing_service import serving

FIRST = json.dumps(
    {
        "type": "observation",
        "data": {"observation": {"text": "guess"}, "reward": None, "done": False},
    }
)


async def played(environment: Environment, *actions: str) -> None:
    session = HttpSession(environment)
    await session.begin(7, 3, {})
    for action in actions:
        await session.step(action)
    await session.close()


def test_service_gets_its_own_secret_with_every_request_and_others_get_none(
    service, called, settings
):
    settings.ENVIRONMENT_KEYS = {
        f"127.0.0.1:{service.address.split(':')[2].split('/')[0]}": "s3cret"
    }
    asyncio.run(played(called, "5"))
    with serving() as other:
        asyncio.run(played(Environment(kind="http", address=other.address)))
    assert (service.bearers, other.bearers) == (["Bearer s3cret"] * 3, [None] * 2)


def test_websocket_is_opened_with_the_secret(settings):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]
    settings.ENVIRONMENT_KEYS = {"127.0.0.1": "s3cret"}
    shown = []

    async def answer(connection) -> None:
        shown.append(connection.request.headers.get("Authorization"))
        await connection.recv()
        await connection.send(FIRST)
        await connection.wait_closed()

    async def play() -> None:
        async with serve(answer, "127.0.0.1", 0) as server:
            address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            session = OpenEnvSession(
                Environment(kind="openenv", address=address, action_schema={"type": "object"})
            )
            await session.begin(1, 5, {})
            await session.close()

    asyncio.run(play())
    assert shown == ["Bearer s3cret"]


@pytest.mark.parametrize(("scheme", "right"), [("http", "https://"), ("ws", "wss://")])
def test_secret_is_sent_only_over_tls(settings, scheme, right):
    settings.ENVIRONMENT_KEYS = {"env.example.org": "s3cret"}
    with pytest.raises(BadAddress, match=f"_ENVIRONMENT_KEYS, which is sent only over {right}"):
        find_secret(
            "ENVIRONMENT_KEYS", parse_address(f"{scheme}://env.example.org/"), "93.184.215.14"
        )
    assert (
        find_secret(
            "ENVIRONMENT_KEYS", parse_address(f"{scheme}s://env.example.org/"), "93.184.215.14"
        )
        == "s3cret"
    )


def test_error_page_that_repeats_the_secret_does_not_leak_it(service, called, settings):
    settings.ENVIRONMENT_KEYS = {"127.0.0.1": "s3cret"}
    service.breaks = "headers"
    with pytest.raises(CallFailed) as caught:
        asyncio.run(played(called, "5"))
    assert "has the status 500" in str(caught.value) and "s3cret" not in str(caught.value)
