"""Clients of our OpenEnv server: sockets in this process, each in an event loop of its own test."""

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
    """An accepted socket."""

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
        """Return the message that closes the socket."""
        message = await self.communicator.receive_output(SECONDS)
        assert message["type"] == "websocket.close"
        return message


class Refused(Exception):
    """The handshake was rejected."""


@asynccontextmanager
async def connected(
    address: str, secret: str, scheme: str = "Bearer", code: int = 1000
) -> AsyncIterator[Wire]:
    """Open a socket and close it at the end with this code; raise Refused if it is rejected."""
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
    """Keep no connections in our threads, because they would outlive the test database."""
    monkeypatch.setitem(settings.DATABASES["default"], "CONN_MAX_AGE", 0)
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)


@pytest.fixture
def play(unhurried) -> Iterator[Callable]:
    """Return a function that runs work in an event loop and then closes the waiting thread's
    connection.
    """

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
    """Close the connection of this thread."""
    connection.close()


@pytest.fixture
def secret(alice) -> str:
    return Token.issue(alice, "outside", ["env:play:*"])[1]


@pytest.fixture
def answering(service, called, project) -> Environment:
    """Register a service behind an address; `service.breaks` breaks it."""
    called.project = project
    called.reward_high = 1.0
    called.turn_s = 2.0
    called.save()
    return called
