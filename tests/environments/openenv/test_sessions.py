"""How many sessions play at once, who may hold one, and that each ends with its connection, its
client's silence or its token.
"""

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import Membership, Project, Token
from apps.environments.environment_lookup import find_or_register
from apps.environments.episode_opening import open_for
from apps.environments.models import Environment, Episode, PlaySession
from apps.environments.openenv import sessions, socket
from apps.environments.openenv.access import Refused as NotAdmitted
from apps.environments.openenv.access import identify_guest
from tests.environments.openenv.conftest import Refused, connected

WS = "/openenv/lab/guess_number/ws"


@pytest.mark.django_db(transaction=True)
def test_sessions_are_limited_and_a_closed_session_frees_its_place(play, guessing, secret):
    Environment.objects.filter(pk=guessing.pk).update(parallel=1)

    async def whole():
        async with connected(WS, secret) as first:
            await first.ask("reset")
            async with connected(WS, secret) as second:
                refused = await second.hear()
                closed = await second.closed()
        async with connected(WS, secret) as third:
            return refused, closed, await third.ask("reset")

    refused, closed, began = play(whole)
    room = {"active_sessions": 1, "max_sessions": 1}
    assert refused["data"] == {
        "message": "Server at capacity: 1/1 sessions active",
        "code": "CAPACITY_REACHED",
        **room,
    }
    assert closed["code"] == 1000 and began["type"] == "observation"


@pytest.mark.django_db(transaction=True)
def test_silent_client_is_disconnected_with_the_reason(play, guessing, secret, monkeypatch):
    monkeypatch.setattr(socket, "SILENCE_S", 0.05)

    async def whole():
        async with connected(WS, secret) as wire:
            return await wire.hear(), await wire.closed()

    told, closed = play(whole)
    assert told["data"] == {
        "message": "its client sent nothing for 0.05 s",
        "code": "SESSION_ERROR",
    }
    assert (
        closed["reason"] == PlaySession.objects.get().reason == "its client sent nothing for 0.05 s"
    )


@pytest.mark.django_db(transaction=True)
def test_session_ends_when_its_token_is_revoked(play, guessing, secret, monkeypatch):
    monkeypatch.setattr(sessions, "KEPT_EVERY_S", 0.05)

    async def whole():
        async with connected(WS, secret) as wire:
            await wire.ask("reset")
            await asyncio.to_thread(_revoke)
            return await wire.hear(), await wire.closed()

    told, _ = play(whole)
    assert told["data"] == {
        "message": "its token has expired or was revoked",
        "code": "SESSION_ERROR",
    }
    session = PlaySession.objects.get()
    assert session.alive_at > session.opened_at and session.heard_at is not None
    assert (
        guessing.episodes.get().reason == session.reason == "its token has expired or was revoked"
    )


def _revoke() -> None:
    Token.objects.get().revoke()


@pytest.mark.django_db(transaction=True)
def test_client_without_a_valid_token_is_rejected_before_the_handshake(play, guessing, alice, bob):
    wrong = [
        "",
        "rft_usr_unknown",
        Token.issue(alice, "reads", ["read", "env:write:*", "env:play:maze"])[1],
        Token.issue(bob, "rates", ["env:play:*"])[1],
    ]
    right = Token.issue(alice, "plays", ["env:play:guess_number"])[1]

    async def met(secret: str, address: str = WS, scheme: str = "Bearer") -> str:
        try:
            async with connected(address, secret, scheme) as wire:
                return (await wire.ask("state"))["type"]
        except Refused:
            return "refused"

    async def whole():
        refused = [await met(secret) for secret in wrong] + [
            await met(right, "/openenv/lab/maze/ws")
        ]
        return refused, [
            await met(right),
            await met(right, "/openenv/guess_number/ws"),
            await met(right, scheme="Basic"),
        ]

    refused, let_in = play(whole)
    assert (refused, let_in) == (["refused"] * 5, ["state"] * 3)


def test_environment_name_used_in_two_projects_requires_the_project(guessing, alice, secret):
    other = Project.objects.create(slug="other", title="Another")
    find_or_register(other, "guess_number")
    header = f"Bearer {secret}".encode()
    assert (
        identify_guest(header, None, "guess_number").environment == guessing
    )  # she is not of the other
    Membership.objects.create(project=other, user=alice, role="owner")
    with pytest.raises(
        NotAdmitted, match="/openenv/lab/guess_number/, /openenv/other/guess_number/"
    ) as caught:
        identify_guest(header, None, "guess_number")
    assert caught.value.status == 409
    assert identify_guest(header, "other", "guess_number").environment.project == other


@pytest.mark.django_db(transaction=True)
def test_agent_and_verifiers_environments_cannot_be_played_from_outside(play, project, secret):
    find_or_register(project, "agent")
    Environment.objects.create(project=project, name="theirs", kind="verifiers", address="theirs")

    async def met(name: str) -> str:
        async with connected(f"/openenv/{name}/ws", secret) as wire:
            told = await wire.hear()
            await wire.closed()
            assert told["data"]["code"] == "SESSION_ERROR"
            return told["data"]["message"]

    async def whole():
        return await met("agent"), await met("theirs")

    agent, theirs = play(whole)
    assert "the agent itself acts" in agent and "only for runs" in theirs
    assert not PlaySession.objects.exists()


def test_sweep_closes_a_session_whose_process_is_gone(guessing, alice):
    kept = sessions.begin_session(guessing, alice, "ws")
    lost = sessions.begin_session(guessing, alice, "ws")
    for session in (kept, lost):
        open_for(session, guessing, 3, {})
    PlaySession.objects.filter(pk=lost.pk).update(
        alive_at=timezone.now() - timedelta(seconds=sessions.LIVES_S + 1)
    )
    assert list(sessions.living(guessing)) == [kept]
    assert (sessions.close_lost(), sessions.close_lost()) == (1, 0)
    lost.refresh_from_db()
    assert lost.reason == lost.episodes.get().reason == sessions.LOST
    assert list(Episode.objects.open()) == list(kept.episodes.all())
    assert not sessions.keep_session(lost.pk)
