"""Chatting with a weight version: messages are answered by real weights, replies appear while they
are written, and chats are found again.
"""

import pytest
from django.urls import reverse

from apps.policies.manifest import read_manifest
from apps.rollouts.models import ChatTurn
from apps.runs.models import Run, Worker
from workers.explorer import chats
from workers.explorer.loop import ExplorerLoop
from workers.policies.tiny import build_tiny

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def address(seeded, tmp_path) -> str:
    """Return the address of a chat with real weights; the explorer has no other work."""
    run = seeded["run"]
    Run.objects.update(
        state=Run.State.STOPPED
    )  # its event would be announced, which needs an event loop in this thread
    build_tiny(tmp_path / "tone", "tone")
    told = {
        "folder": str(tmp_path / "tone"),
        "fingerprint": read_manifest(tmp_path / "tone").fingerprint,
    }
    run.weight_versions.filter(version=run.published_version).update(**told)
    return reverse("run-weight-chat", args=[run.project.slug, run.slug, run.published_version])


@pytest.fixture
def explorer(address, monkeypatch):
    monkeypatch.setattr(chats, "ELSEWHERE_SECONDS", 0.0)
    found = ExplorerLoop(
        Worker.objects.create(key="explorer@chat", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    yield found
    found.stop()


def test_holding_enter_sends_a_message_once(visit, seeded, address):
    page = visit(seeded["alice"]).open(address)
    page.get_by_label("Message").fill("My lamp is late.")
    sent = []  # held back, as by a slow server
    page.route(
        "**/*",
        lambda route: sent.append(route) if route.request.method == "POST" else route.continue_(),
    )
    with page.expect_request(lambda request: request.method == "POST"):
        for _ in range(5):  # from the second on, they are repeats
            page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    for route in sent:
        route.continue_()
    page.get_by_text("Waiting for an engine").wait_for()
    assert len(sent) == 1 and ChatTurn.objects.count() == 1


def test_typed_message_is_answered_while_the_user_watches(
    visit, seeded, address, explorer, eventually
):
    window = visit(seeded["alice"])
    page = window.open(address)
    page.get_by_label("max tokens").fill("30")
    page.get_by_label("Message").fill("My lamp is late.")
    window.press("Enter")
    page.get_by_text("Waiting for an engine").wait_for()
    page.get_by_role("button", name="Stop").wait_for()
    eventually(lambda: explorer.serve() is not None and not ChatTurn.objects.open().exists(), 300)
    page.locator("[data-ended]").wait_for(state="attached")
    turn = ChatTurn.objects.get()
    assert turn.state == "done"
    shown = page.locator("#last .words").inner_text()
    assert shown.split() == (turn.reply.split() or ["(empty)"])
    page.get_by_role("button", name="Copy").wait_for()
    page.get_by_role("button", name="Retry").click()
    eventually(
        lambda: (
            explorer.serve() is not None
            and ChatTurn.objects.filter(is_replaced=False, state="done").count() == 1
        ),
        300,
    )
    page.locator("[data-ended]").wait_for(state="attached")
    assert page.locator(".say.user").count() == 1
    page.get_by_role("link", name="New conversation").click()
    page.locator(".earlier-list").get_by_role("link", name="My lamp is late.").click()
    page.wait_for_url("**/chat/?chat=*")
    assert window.complaints == []
