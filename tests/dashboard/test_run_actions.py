"""Actions on a run with their reasons, and the audit log of the people who control it."""

import html

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry
from apps.runs.models import Run


def act_on(client, run: Run, verb: str, **fields: str):
    return client.post(reverse("run-act", args=[run.project.slug, run.slug, verb]), fields)


def page(client, run: Run, **asked: str) -> str:
    return html.unescape(
        client.get(reverse("run-audit", args=[run.project.slug, run.slug]), asked).content.decode()
    )


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_reason_is_stored_in_the_run_the_event_and_the_audit_log(client, alice, run, verb, state):
    client.force_login(alice)
    act_on(client, run, verb, name=run.slug, reason="the scorer is wrong")
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (state, "the scorer is wrong")
    assert (
        run.topic.events.get(kind="state_changed", payload__state=state).payload["reason"]
        == "the scorer is wrong"
    )
    assert AuditEntry.objects.get(action=f"run {state}").details == {
        "reason": "the scorer is wrong"
    }


@pytest.mark.parametrize("reason", ["half of a\x07word", "x" * 301])
def test_invalid_reason_is_rejected_and_changes_nothing(client, alice, run, reason):
    client.force_login(alice)
    assert act_on(client, run, "pause", reason=reason).status_code == 302
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING
    assert "Nothing was changed: A reason" in html.unescape(
        client.get(reverse("run", args=[run.project.slug, run.slug])).content.decode()
    )


def test_resuming_with_a_reason_clears_the_state_reason(client, alice, run):
    client.force_login(alice)
    run.pause()
    act_on(client, run, "resume", reason="mended")
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (Run.State.RUNNING, "")
    assert AuditEntry.objects.get(action="run resumed").details == {"reason": "mended"}


def test_checkpoint_can_be_requested_on_the_run_page(client, alice, run):
    client.force_login(alice)
    act_on(client, run, "checkpoint")
    run.refresh_from_db()
    assert run.checkpoint_requested_at is not None
    shown = client.get(reverse("run", args=[run.project.slug, run.slug])).content.decode()
    assert "Checkpoint after the next step" in shown


def test_ended_run_rejects_a_checkpoint_request(client, alice, run):
    client.force_login(alice)
    run.stop()
    answer = client.post(
        reverse("run-act", args=[run.project.slug, run.slug, "checkpoint"]), follow=True
    )
    assert "only a running or pausing run" in answer.content.decode()


def test_audit_log_of_a_run_contains_only_its_own_actions(client, alice, run, new_run):
    client.force_login(alice)
    new_run().pause(alice, "another run's reason")
    run.pause(alice, "lunch")
    run.change_config(alice, max_staleness=3, reason="to go faster")
    shown = page(client, run)
    assert "lunch" in shown and "to go faster" in shown and "max_staleness" in shown
    assert "another run's reason" not in shown
    whole = html.unescape(client.get(reverse("project-audit", args=["lab"])).content.decode())
    assert "another run's reason" in whole and "lunch" in whole


def test_audit_log_can_be_filtered_by_action_and_person(client, alice, bob, run):
    client.force_login(alice)
    run.pause(alice, "lunch")
    run.resume(bob, "back again")
    assert "back again" in page(client, run, action="resumed") and "lunch" not in page(
        client, run, action="resumed"
    )
    assert "lunch" in page(client, run, by="ALICE") and "back again" not in page(
        client, run, by="alice"
    )


def test_raters_and_strangers_cannot_read_the_audit_log(client, bob, carol, run):
    for person, status in ((bob, 403), (carol, 404)):
        client.force_login(person)
        for address in (
            reverse("run-audit", args=["lab", run.slug]),
            reverse("project-audit", args=["lab"]),
        ):
            assert client.get(address).status_code == status
