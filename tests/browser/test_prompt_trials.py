"""A prompt tried on a model's page: real weights answer while the page is open."""

import pytest
from django.urls import reverse

from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.rollouts.models import ChatTurn
from apps.runs.models import Run, Worker
from tests.browser.conftest import DESKTOP, PHONE
from workers.explorer import chats
from workers.explorer.loop import ExplorerLoop
from workers.policies.tiny import build_tiny

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def model(seeded, tmp_path) -> Policy:
    """Create a model with real weights; no run gives an explorer work."""
    Run.objects.update(state=Run.State.STOPPED)
    build_tiny(tmp_path / "tone", "tone")
    fingerprint = read_manifest(tmp_path / "tone").fingerprint
    found = seeded["run"].policy
    Policy.objects.filter(pk=found.pk).update(
        folder=str(tmp_path / "tone"), fingerprint=fingerprint
    )
    return found


@pytest.fixture
def explorer(model, monkeypatch):
    monkeypatch.setattr(chats, "ELSEWHERE_SECONDS", 0.0)
    role = Worker.Role.EXPLORER
    found = ExplorerLoop(Worker.objects.create(key="explorer@try", role=role, host="test", pid=1))
    yield found
    found.stop()


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_prompt_is_answered_while_the_user_watches(
    visit, seeded, model, explorer, eventually, viewport, scheme
):
    window = visit(seeded["alice"], viewport, scheme)
    page = window.open(reverse("policy", args=[model.project.slug, model.slug]))
    box = page.get_by_role("region", name="Try a prompt")
    box.get_by_label("Prompt", exact=True).fill("My lamp is late.")
    box.get_by_text("System prompt and sampling").click()
    box.get_by_label("Max tokens").fill("30")
    box.get_by_role("button", name="Try prompt").click()
    box.get_by_text("Waiting for an engine").wait_for()
    box.get_by_role("button", name="Stop").wait_for()
    eventually(lambda: explorer.serve() is not None and not ChatTurn.objects.open().exists(), 300)
    box.locator("[data-ended]").wait_for(state="attached")
    turn = ChatTurn.objects.get()
    assert turn.state == "done"
    shown = box.get_by_test_id("reply").inner_text()
    assert shown.split() == (turn.reply.split() or ["(empty)"])
    page.reload()
    assert box.get_by_label("Prompt", exact=True).input_value() == "My lamp is late."
    box.get_by_role("button", name="Try again").wait_for()
    assert not window.has_overflow()
    assert window.complaints == []
