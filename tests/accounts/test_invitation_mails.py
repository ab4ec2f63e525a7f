"""Invitations by e-mail: a worker sends them to a real mail server; a failure shows why."""

import re

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from apps.accounts.invitation_mails import MAX_ATTEMPTS, deliver_invitations
from apps.accounts.models import AuditEntry, Invitation, InvitationMail, Membership, User
from tests.alerts.sinks import mail_server

pytestmark = pytest.mark.django_db
NEW_PASSWORD = "a long new passphrase 7"


@pytest.fixture
def mailbox(settings):
    """Start a mail server and configure it as RFTWEB_EMAIL_… would."""
    with mail_server() as box:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST = "127.0.0.1"
        settings.EMAIL_PORT = box.port
        settings.EMAIL_USE_TLS = False
        settings.DEFAULT_FROM_EMAIL = "desk@example.org"
        yield box


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def invite(owner: Client, emails: str, **changes: object):
    form = {"role": "rater", "max_uses": 1, "days": 7, "note": "", "emails": emails, **changes}
    return owner.post(reverse("project-invite", args=["lab"]), form)


def page(owner: Client) -> str:
    return owner.get(reverse("project", args=["lab"])).content.decode()


def test_invitation_arrives_as_plain_text_and_its_link_creates_an_account(mailbox, owner):
    assert invite(owner, "dora@example.org").status_code == 302
    assert "waiting" in page(owner) and mailbox.mails == []  # the request sent nothing
    assert deliver_invitations() == 1 and deliver_invitations() == 0
    [mail] = mailbox.mails
    assert (mail["To"], mail["From"]) == ("dora@example.org", "desk@example.org")
    assert mail["Subject"] == "Invitation to The lab"
    assert mail.get_content_type() == "text/plain"
    text = mail.get_payload(decode=True).decode()
    assert "alice invites you" in text and "Your role: rater." in text
    link = re.search(r"http://testserver(/invitations/rft_inv_[\w-]+/)", text).group(1)
    form = {"username": "dora", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert Client().post(link, form).status_code == 302
    dora = User.objects.get(username="dora")
    assert Membership.objects.get(user=dora).role == "rater"
    assert dora.email == "dora@example.org"


def test_link_is_stored_encrypted_and_cleared_when_sent(mailbox, owner):
    invite(owner, "dora@example.org")
    sealed = InvitationMail.objects.get().sealed_link
    assert sealed and "rft_inv_" not in sealed
    deliver_invitations()
    sent = InvitationMail.objects.get()
    assert (sent.state, sent.sealed_link) == ("sent", "") and sent.sent_at
    assert "sent</span>" in page(owner)


def test_each_address_gets_its_own_single_use_link(mailbox, owner):
    invite(owner, "a@example.org, b@example.org\nA2@example.org a@example.org", max_uses=5)
    assert deliver_invitations() == 3
    assert sorted(mail["To"] for mail in mailbox.mails) == [
        "A2@example.org",
        "a@example.org",
        "b@example.org",
    ]
    assert set(Invitation.objects.values_list("max_uses", flat=True)) == {1}


def test_mail_fails_with_a_reason_if_the_server_is_unreachable_and_can_be_resent(
    settings, mailbox, owner
):
    settings.EMAIL_PORT = 1  # no server listens there
    invite(owner, "dora@example.org")
    for attempt in range(1, MAX_ATTEMPTS + 1):
        InvitationMail.objects.update(due_at=Now())
        assert deliver_invitations() == 0
        mail = InvitationMail.objects.get()
        assert mail.attempts == attempt and "the mail server did not take it" in mail.reason
    assert mail.state == "failed"
    text = page(owner)
    assert "not sent" in text and "the mail server did not take it" in text
    settings.EMAIL_PORT = mailbox.port
    pk = mail.invitation_id
    owner.post(reverse("project-invitation-mail", args=["lab", pk]))
    assert deliver_invitations() == 1 and len(mailbox.mails) == 1
    assert AuditEntry.objects.filter(action="invitation sent again", name="alice").exists()


def test_a_revoked_invitation_is_not_sent(mailbox, owner, alice):
    invite(owner, "dora@example.org")
    Invitation.objects.get().revoke(alice)
    assert deliver_invitations() == 0
    mail = InvitationMail.objects.get()
    assert (mail.state, mail.reason) == ("failed", "the invitation is revoked")


@pytest.mark.parametrize(
    ("emails", "message"),
    [
        ("dora", "dora is not an e-mail address, such as name@example.org."),
        ("a@example.org, b@", "b@ is not an e-mail address"),
        (" ".join(f"a{n}@example.org" for n in range(21)), "There are 21 addresses"),
    ],
)
def test_invalid_addresses_are_refused_with_a_message_and_kept_in_the_form(
    mailbox, owner, emails, message
):
    answer = invite(owner, emails)
    text = answer.content.decode()
    assert answer.status_code == 422 and message in text and emails in text
    assert not Invitation.objects.exists()


def test_without_a_mail_server_the_page_offers_only_invitation_links(settings, owner):
    settings.EMAIL_HOST = ""
    text = page(owner)
    assert "RFTWEB_EMAIL_HOST" in text and 'name="emails"' not in text
    answer = invite(owner, "dora@example.org")
    assert answer.status_code == 422 and "E-mail is not set up" in answer.content.decode()
    assert 'data-testid="invitation-link"' in invite(owner, "").content.decode()
