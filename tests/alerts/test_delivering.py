"""Alerts reach a real mail server and a real webhook receiver, signed; failures are retried,
and forbidden addresses are not called.
"""

import hashlib
import hmac
import json
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from apps.alerts import delivering
from apps.alerts.delivering import MAX_ATTEMPTS, check_channel_address, deliver, pause_after
from apps.alerts.evaluating import look_at_runs
from apps.alerts.models import Channel, Delivery
from tests.alerts.conftest import go_on
from tests.alerts.sinks import mail_server, receiver


@pytest.fixture
def mailbox(settings):
    """Start a mail server and configure it as RFTWEB_EMAIL_… would."""
    with mail_server() as box:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST = "127.0.0.1"
        settings.EMAIL_PORT = box.port
        settings.EMAIL_USE_TLS = False
        settings.DEFAULT_FROM_EMAIL = "desk@example.org"
        settings.SITE_ADDRESS = "https://desk.example.org"
        yield box


@pytest.fixture
def hook(settings):
    """Start a webhook receiver on this machine, and list it as allowed."""
    with receiver() as took:
        settings.ENVIRONMENT_HOSTS = [f"127.0.0.1:{took.port}"]
        yield took


def make_due() -> None:
    Delivery.objects.update(due_at=Now())


def test_alert_mail_contains_the_metric_the_advice_and_the_link(mailbox, stalled, alice):
    Channel.make(stalled.project, "email", "team@example.org", alice)
    look_at_runs()
    assert deliver() == 1 and deliver() == 0
    [mail] = mailbox.mails
    assert (mail["To"], mail["From"]) == ("team@example.org", "desk@example.org")
    assert mail["Subject"] == f"Alert: no progress in lab/{stalled.slug}"
    text = mail.get_payload(decode=True).decode()
    assert "No step for 2 h" in text and "Check that a trainer runs" in text
    assert f"https://desk.example.org/runs/lab/{stalled.slug}/alerts/" in text
    assert Delivery.objects.get().state == Delivery.State.SENT


def test_deliveries_waiting_for_a_disabled_channel_are_never_sent(hook, stalled, alice):
    channel = Channel.make(stalled.project, "webhook", hook.address, alice)
    look_at_runs()
    channel.switch_off()
    make_due()
    assert deliver() == 0
    channel.switch_on()
    make_due()
    assert deliver() == 0 and hook.calls == []
    assert Delivery.objects.get().state == Delivery.State.GIVEN_UP


def test_test_message_is_sent_even_if_the_channel_is_disabled(hook, stalled, alice):
    channel = Channel.make(stalled.project, "webhook", hook.address, alice)
    channel.switch_off()
    channel.test()
    assert deliver() == 1


def test_webhook_carries_a_signature_the_receiver_can_verify(hook, stalled, alice):
    channel = Channel.make(stalled.project, "webhook", hook.address, alice)
    look_at_runs()
    go_on(stalled)
    look_at_runs()
    assert deliver() == 2
    # Both are sent at the same time, and may arrive in either order.
    by_kind = {json.loads(call.body)["kind"]: call for call in hook.calls}
    opened = by_kind["alert.opened"]
    closed = by_kind["alert.closed"]
    assert opened.path == "/hooks/alerts/?team=a"
    told = json.loads(opened.body)
    assert (told["kind"], told["alert"]["rule"], told["alert"]["run"]) == (
        "alert.opened",
        "no_progress",
        stalled.slug,
    )
    assert told["id"] == opened.headers["x-rftweb-id"] != closed.headers["x-rftweb-id"]
    assert json.loads(closed.body)["kind"] == "alert.closed"
    said = f"{opened.headers['x-rftweb-timestamp']}.".encode() + opened.body
    expected = hmac.new(channel.secret.encode(), said, hashlib.sha256).hexdigest()
    assert opened.headers["x-rftweb-signature"] == f"v1={expected}"


def test_channel_secret_is_not_stored_in_plain_text_and_can_be_renewed(project, alice):
    channel = Channel.make(project, "webhook", "https://example.org/", alice)
    secret = channel.secret
    with connection.cursor() as cursor:
        cursor.execute("SELECT alerts_channel::text FROM alerts_channel")
        assert secret not in str(cursor.fetchall())
    assert Channel.objects.get().secret == secret
    channel.renew()
    assert Channel.objects.get().secret != secret


def test_refused_delivery_is_retried_later_with_the_same_id(hook, stalled, alice):
    Channel.make(stalled.project, "webhook", hook.address, alice)
    hook.status = 503
    look_at_runs()
    assert deliver() == 0 and deliver() == 0 and len(hook.calls) == 1
    waiting = Delivery.objects.get()
    assert (waiting.state, waiting.attempts) == (
        Delivery.State.WAITING,
        1,
    ) and "answered with 503" in waiting.answer
    hook.status = 200
    make_due()
    assert deliver() == 1
    first, second = hook.calls
    assert first.headers["x-rftweb-id"] == second.headers["x-rftweb-id"]


def test_mail_is_retried_after_the_server_refuses_it(mailbox, project, alice):
    Channel.make(project, "email", "team@example.org", alice).test()
    mailbox.refusing = True
    assert deliver() == 0 and "rejected" in Delivery.objects.get().answer
    mailbox.refusing = False
    make_due()
    assert deliver() == 1 and mailbox.mails[0]["Subject"] == "Test: alerts of lab"


def test_delivery_is_given_up_after_the_last_attempt(hook, project, alice):
    Channel.make(project, "webhook", hook.address, alice).test()
    hook.status = 500
    Delivery.objects.update(attempts=MAX_ATTEMPTS - 1)
    deliver()
    assert Delivery.objects.get().state == Delivery.State.GIVEN_UP
    make_due()
    assert deliver() == 0 and len(hook.calls) == 1


def test_pauses_between_delivery_attempts_grow_up_to_an_hour():
    pauses = [pause_after(attempts) for attempts in range(1, MAX_ATTEMPTS + 1)]
    assert pauses[:3] == [10, 30, 90] and pauses == sorted(pauses) and pauses[-1] == 3600


def test_delivery_claimed_by_a_crashed_worker_is_sent_again(hook, project, alice, monkeypatch):
    Channel.make(project, "webhook", hook.address, alice).test()

    class Died(Exception):
        pass

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(delivering, "_settle", die)
        with pytest.raises(Died):
            deliver()
    assert deliver() == 0  # it is still claimed
    Delivery.objects.update(due_at=Now() - timedelta(seconds=1))
    assert deliver() == 1
    assert len({call.headers["x-rftweb-id"] for call in hook.calls}) == 1


def test_unlisted_address_inside_the_network_is_not_called(hook, settings, project, alice):
    settings.ENVIRONMENT_HOSTS = []
    Channel.make(project, "webhook", hook.address, alice).test()
    assert deliver() == 0 and hook.calls == []
    assert "inside this network" in Delivery.objects.get().answer


@pytest.mark.parametrize(
    ("kind", "address", "words"),
    [
        ("webhook", "ftp://example.org/", "must begin with"),
        ("webhook", "ws://example.org/", "http:// or https://"),
        ("webhook", "https://user:secret@example.org/", "not contain a user or password"),
        ("webhook", "https://example.org/ a", "without spaces"),
        ("webhook", "https://example.org/?a=b#c", "without spaces and #"),
        ("email", "nobody", "must be an e-mail address"),
        ("email", "a@example.org\nBcc: b@example.org", "must be an e-mail address"),
    ],
)
def test_invalid_channel_address_is_refused_with_the_reason(settings, kind, address, words):
    settings.EMAIL_HOST = "mail.example.org"
    with pytest.raises(ValueError, match=words):
        check_channel_address(kind, address)


def test_email_channel_is_refused_without_a_mail_server(settings, project, alice):
    settings.EMAIL_HOST = ""
    with pytest.raises(ValueError, match="RFTWEB_EMAIL_HOST"):
        check_channel_address("email", "team@example.org")
    Channel.make(project, "email", "team@example.org", alice).test()
    assert deliver() == 0 and "RFTWEB_EMAIL_HOST" in Delivery.objects.get().answer
