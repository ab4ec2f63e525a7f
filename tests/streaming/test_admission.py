"""Who may open a socket, how many, and how it handles messages of the browser."""

import asyncio
import json
from urllib.parse import quote

import pytest
from allauth.mfa.models import Authenticator
from channels.db import database_sync_to_async
from django.contrib.sessions.models import Session
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from apps.accounts.models import Membership
from apps.streaming.sockets import SOCKETS_PER_USER, Socket
from rftweb.server import SOCKET_LIMITS

pytestmark = pytest.mark.django_db(transaction=True)
SOCKETS = pytest.mark.parametrize("path", ["live", "events"])


@pytest.fixture
def address(serve) -> str:
    return serve()


def opened(
    address: str, path: str, query: str, headers: dict[str, str], **options: object
) -> connect:
    options.setdefault("origin", address.replace("ws:", "http:"))
    return connect(
        f"{address}/ws/{path}/?{query}", additional_headers=headers, proxy=None, **options
    )


async def close_code(socket) -> int:
    """Return the code with which the server closes the socket; ignore messages before that."""
    with pytest.raises(ConnectionClosed) as closed:
        async with asyncio.timeout(60):
            while True:
                await socket.recv()
    return closed.value.rcvd.code


async def refused_with(*arguments, **options) -> int:
    async with opened(*arguments, **options) as socket:
        return await close_code(socket)


@SOCKETS
async def test_unauthenticated_socket_is_refused(address, path, run):
    assert await refused_with(address, path, f"topic={run.topic_id}", {}) == 4401


@SOCKETS
async def test_administrator_without_a_required_second_factor_is_refused(
    address, path, run, admin, admins, settings
):
    query = f"topic={run.topic_id}"
    settings.REQUIRE_MFA_FOR_STAFF = True
    assert await refused_with(address, path, query, admins) == 4401
    totp = {"type": Authenticator.Type.TOTP, "data": {"secret": "x"}}
    await Authenticator.objects.acreate(user=admin, **totp)
    async with opened(address, path, query, admins) as socket:
        await socket.recv()
        await socket.send("ping")
        assert json.loads(await socket.recv()) == {"pong": True}


@SOCKETS
async def test_user_outside_the_project_is_refused(address, path, run, carols):
    assert await refused_with(address, path, f"topic={run.topic_id}", carols) == 4403


@SOCKETS
async def test_one_forbidden_topic_among_allowed_ones_refuses_the_socket(address, path, run, bobs):
    assert (
        await refused_with(address, path, f"topic={run.topic_id}&topic={run.topic_id + 1000}", bobs)
        == 4403
    )


@SOCKETS
@pytest.mark.parametrize(
    "query", ["topic=x", "topic=" + "9" * 30, "&".join(["topic=1"] * 21), "a=1&" * 300]
)
async def test_malformed_address_is_refused(address, path, bobs, query):
    assert await refused_with(address, path, query, bobs) == 4404


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("live", "after=1:x"),
        ("live", "after=x"),
        ("live", "after=" + "1:1-0," * 501),
        ("events", "since=x"),
    ],
)
async def test_malformed_resume_position_is_refused(address, path, bobs, query):
    assert await refused_with(address, path, f"topic=1&{query}", bobs) == 4404


@SOCKETS
async def test_other_site_cannot_open_a_socket_with_a_users_cookie(address, path, run, bobs):
    with pytest.raises(InvalidStatus, match="403"):
        await opened(address, path, f"topic={run.topic_id}", bobs, origin="https://evil.example")


@SOCKETS
async def test_page_on_another_port_of_this_machine_counts_as_another_site(
    address, path, run, bobs
):
    with pytest.raises(InvalidStatus, match="403"):
        await opened(address, path, f"topic={run.topic_id}", bobs, origin="http://127.0.0.1:1")


async def test_trusted_origin_may_open_a_socket(address, run, bobs, settings):
    settings.CSRF_TRUSTED_ORIGINS = ["https://proxy.example"]
    query = f"topic={run.topic_id}"
    async with opened(address, "events", query, bobs, origin="https://proxy.example"):
        pass


async def test_unknown_socket_path_is_refused(address, bobs):
    with pytest.raises(InvalidStatus, match="403"):
        await opened(address, "nothing-here", "", bobs)


@SOCKETS
async def test_number_of_sockets_per_user_is_limited(address, path, run, bobs):
    sockets = [
        await opened(address, path, f"topic={run.topic_id}", bobs) for _ in range(SOCKETS_PER_USER)
    ]
    assert await refused_with(address, path, f"topic={run.topic_id}", bobs) == 4408
    for socket in sockets:
        await socket.close()
    async with opened(address, path, f"topic={run.topic_id}", bobs) as socket:
        assert json.loads(await socket.recv())


@SOCKETS
async def test_leaving_the_project_closes_the_socket(address, path, run, bob, bobs, monkeypatch):
    monkeypatch.setattr(Socket, "recheck_s", 0.1)
    async with opened(address, path, f"topic={run.topic_id}", bobs) as socket:
        await socket.recv()
        await database_sync_to_async(Membership.objects.filter(user=bob).delete)()
        assert await close_code(socket) == 4403


@SOCKETS
async def test_signing_out_closes_the_socket(address, path, run, bobs, monkeypatch):
    monkeypatch.setattr(Socket, "recheck_s", 0.1)
    async with opened(address, path, f"topic={run.topic_id}", bobs) as socket:
        await socket.recv()
        await database_sync_to_async(Session.objects.all().delete)()
        assert await close_code(socket) == 4401


@SOCKETS
async def test_password_change_closes_the_socket(address, path, run, bob, bobs, monkeypatch):
    monkeypatch.setattr(Socket, "recheck_s", 0.1)
    async with opened(address, path, f"topic={run.topic_id}", bobs) as socket:
        await socket.recv()
        bob.set_password("another long password")
        await database_sync_to_async(bob.save)()
        assert await close_code(socket) == 4401


@SOCKETS
async def test_ping_gets_a_pong_and_other_messages_are_ignored(address, path, run, bobs):
    async with opened(address, path, f"topic={run.topic_id}", bobs) as socket:
        await socket.recv()
        for said in ('{"type": "topic.event"}', b"\x00\xff", "ping"):
            await socket.send(said)
        assert json.loads(await socket.recv()) == {"pong": True}


@SOCKETS
@pytest.mark.parametrize(
    ("said", "times", "code"), [("x" * 2000, 1, 1009), (b"x" * 2000, 1, 1009), ("ping", 200, 1008)]
)
async def test_browser_that_sends_too_much_is_disconnected(
    address, path, run, bobs, said, times, code
):
    async with opened(address, path, f"topic={run.topic_id}", bobs) as socket:
        try:
            for _ in range(times):
                await socket.send(said)
        except ConnectionClosed as closed:
            assert closed.rcvd.code == code
        else:
            assert await close_code(socket) == code


async def test_message_beyond_the_size_limit_is_refused(address, run, bobs):
    async with opened(address, "events", f"topic={run.topic_id}", bobs) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.send("x" * (SOCKET_LIMITS["ws_max_size"] + 1))
            async with asyncio.timeout(60):
                while True:
                    await socket.recv()
    assert closed.value.rcvd.code == 1009 and "exceeds limit" in closed.value.rcvd.reason


@pytest.mark.parametrize("topic", ["run:3", "\u0663", "1_0", "+1", "9" * 19, ""])
async def test_topic_that_is_not_a_number_is_refused_with_a_reason(address, bobs, topic):
    async with opened(address, "events", f"topic=1&topic={quote(topic)}", bobs) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    told = closed.value.rcvd
    assert (told.code, "topic: at most" in told.reason) == (
        (4404, True) if topic else (4403, False)
    )
