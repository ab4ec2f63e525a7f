"""Clients of our OpenEnv server: sockets spoken to in this process, each in an event loop of its
test's own.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from channels.testing import WebsocketCommunicator
from django.db import connection

from apps.accounts.models import Token
from apps.environments.models import Environment
from apps.environments.openenv.pushed import Observers
from rftweb.asgi import application
from tests.environments.pull.conftest import called, service  # noqa: F401

SECONDS = 20


class Wire:
    """One accepted socket."""

    def __init__(self, communicator: WebsocketCommunicator) -> None:
        self.communicator = communicator

    async def ask(self, kind: str, data: dict | None = None) -> dict:
        return await self.say(
            json.dumps({"type": kind} if data is None else {"type": kind, "data": data})
        )

    async def say(self, text: str) -> dict:
        await self.communicator.send_to(text_data=text)
        return await self.hear()

    async def hear(self) -> dict:
        return json.loads(await self.communicator.receive_from(SECONDS))

    async def closed(self) -> dict:
        """The message that closes it."""
        message = await self.communicator.receive_output(SECONDS)
        assert message["type"] == "websocket.close"
        return message


class Refused(Exception):
    """The handshake was."""


@asynccontextmanager
async def connected(
    address: str, secret: str, scheme: str = "Bearer", code: int = 1000
) -> AsyncIterator[Wire]:
    """A socket that is let in, closed in the end with this code. Raises Refused."""
    said = secret if scheme == "Bearer" else base64.b64encode(f"anybody:{secret}".encode()).decode()
    headers = [(b"authorization", f"{scheme} {said}".encode())] if secret else []
    communicator = WebsocketCommunicator(application, address, headers=headers)
    accepted, _ = await communicator.connect(SECONDS)
    if not accepted:
        raise Refused
    try:
        yield Wire(communicator)
    finally:
        await communicator.disconnect(code, SECONDS)
        await communicator.wait(SECONDS)


@pytest.fixture
def unhurried(settings, monkeypatch) -> None:
    """Threads of ours keep no connection, which would outlive the test's database."""
    monkeypatch.setitem(settings.DATABASES["default"], "CONN_MAX_AGE", 0)
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)


@pytest.fixture
def play(unhurried) -> Iterator[Callable]:
    """Run something in an event loop; its waiters' thread gives its connection back."""

    def run(work: Callable[[], Awaitable]) -> object:
        async def whole() -> object:
            try:
                async with asyncio.timeout(60):
                    return await work()
            finally:
                await asyncio.get_running_loop().run_in_executor(Observers.here().thread, close)

        return asyncio.run(whole())

    yield run


def close() -> None:
    """The connection of this thread."""
    connection.close()


@pytest.fixture
def secret(alice) -> str:
    return Token.issue(alice, "outside", ["env:play:*"])[1]


@pytest.fixture
def answering(service, called, project) -> Environment:
    """A service behind an address, registered; `service.breaks` breaks it."""
    called.project = project
    called.reward_high = 1.0
    called.turn_s = 2.0
    called.save()
    return called
