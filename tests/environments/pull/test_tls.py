"""Services over https:// and wss://: the certificate must be trusted and match the name, whatever
address it resolved to.
"""

import asyncio
import json

import pytest
from websockets.asyncio.server import serve

from apps.environments.models import Environment
from apps.environments.pull import addresses
from apps.environments.pull.errors import CallFailed
from apps.environments.pull.http import HttpSession
from apps.environments.pull.openenv import OpenEnvSession
from tests.certificates import Authority
from tests.guessing_service import serving
from workers.explorer.local_player import Move
from workers.explorer.service_player import ServicePlayer

FIRST = json.dumps(
    {
        "type": "observation",
        "data": {"observation": {"text": "guess"}, "reward": None, "done": False},
    }
)
ACTION = {"type": "object", "properties": {"guess": {"type": "string"}}}


@pytest.fixture
def authority(tmp_path, monkeypatch, settings) -> Authority:
    """Create the certificate authority that this installation trusts."""
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1"]
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    addresses._tls_context.cache_clear()
    yield made
    addresses._tls_context.cache_clear()


@pytest.fixture
def wrong(authority, tmp_path):
    """Return server contexts that must not be trusted, by reason."""
    return {
        "another name": authority.serving("elsewhere.example"),
        "the machine's name": authority.serving("127.0.0.1"),
        "no longer good": authority.serving("localhost", days=-1),
        "nobody's": Authority(tmp_path, "stranger").serving("localhost"),
    }


WRONG = [
    ("another name", "Hostname mismatch"),
    ("the machine's name", "Hostname mismatch"),
    ("no longer good", "certificate has expired"),
    ("nobody's", "unable to get local issuer certificate"),
]


def begun(session) -> object:
    async def begin() -> object:
        try:
            return (await session.begin(7, 3, {})).observation
        finally:
            await session.close()

    return asyncio.run(begin())


def over_socket(tls) -> object:
    """Return the first observation of an OpenEnv server with this certificate."""

    async def answer(connection) -> None:
        await connection.recv()
        await connection.send(FIRST)
        await connection.wait_closed()

    async def play() -> object:
        async with serve(answer, "127.0.0.1", 0, ssl=tls) as server:
            address = f"wss://localhost:{server.sockets[0].getsockname()[1]}"
            session = OpenEnvSession(
                Environment(kind="openenv", address=address, action_schema=ACTION)
            )
            try:
                return (await session.begin(7, 3, {})).observation
            finally:
                await session.close()

    return asyncio.run(play())


def test_certificate_of_the_host_name_is_trusted_and_the_name_is_sent(authority, settings):
    settings.ENVIRONMENT_KEYS = {"localhost": "s3cret"}
    asked_for = []
    tls = authority.serving("localhost")
    tls.sni_callback = lambda connection, name, context: asked_for.append(name)
    with serving(tls) as service:
        assert begun(HttpSession(Environment(kind="http", address=service.address))) == "guess"
        assert service.bearers == ["Bearer s3cret"] * 2
    assert over_socket(tls) == "guess"
    assert asked_for == ["localhost"] * 3


@pytest.mark.parametrize(("why", "reason"), WRONG)
def test_invalid_certificate_is_rejected_before_anything_is_sent(wrong, settings, why, reason):
    settings.ENVIRONMENT_KEYS = {"localhost": "s3cret"}
    with serving(wrong[why]) as service:
        with pytest.raises(CallFailed, match=f"its certificate is not trusted: {reason}"):
            asyncio.run(
                HttpSession(Environment(kind="http", address=service.address)).begin(7, 3, {})
            )
        assert service.asked == service.bearers == []
    with pytest.raises(CallFailed, match=f"its certificate is not trusted: {reason}"):
        over_socket(wrong[why])


def test_invalid_certificate_fails_the_episode_without_a_reward(wrong):
    with serving(wrong["another name"]) as service:
        player = ServicePlayer(
            Environment(kind="http", name="called", address=service.address, turn_s=5)
        )
        player.ask(Move(1, "called", 3, {}, ()))
        replies = []
        while not replies and player.waiting:
            replies = player.replies()
        player.stop()
    (reply,) = replies
    assert "certificate is not trusted" in reply.error and reply.reward is None
