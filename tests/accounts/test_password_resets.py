"""Password reset links: who may create one, what it allows, and delivery by e-mail."""

import re
import time

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Project, User
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db
NEW_PASSWORD = "a long new passphrase 7"
ASK = "/accounts/password/reset/"
DEADLINE_S = 10.0


@pytest.fixture
def owner(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture
def mailed(settings, bob) -> list:
    """Configure a mail server, and give bob an address."""
    settings.EMAIL_HOST = "mail.example"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    bob.email = "bob@example.com"
    bob.save()
    mail.outbox = []
    return mail.outbox


def create_link(owner: Client, user: User):
    member = Membership.objects.get(user=user, project__slug="lab")
    return owner.post(reverse("project-member-reset", args=["lab", member.pk]))


def link_in(text: str) -> str:
    """Return the path of the reset link in a page or an e-mail."""
    return re.search(r"http://testserver(/accounts/password/reset/key/[\w-]+/)", text).group(1)


def choose_password(link: str, password: str = NEW_PASSWORD):
    browser = Client()
    form = browser.get(link)
    if form.status_code != 302:
        return form
    return browser.post(form.url, {"password1": password, "password2": password})


def wait_for_mail(outbox: list) -> str:
    """Return the text of the first e-mail, which is sent in the background."""
    end = time.monotonic() + DEADLINE_S
    while not outbox:
        assert time.monotonic() < end, "no e-mail was sent"
        time.sleep(0.01)
    return outbox[0].body


def test_link_created_by_an_owner_lets_the_member_set_a_password(owner, bob):
    link = link_in(create_link(owner, bob).content.decode())
    assert choose_password(link).url == "/accounts/password/reset/key/done/"
    bob.refresh_from_db()
    assert bob.check_password(NEW_PASSWORD)
    assert AuditEntry.objects.filter(
        action="password reset link created", by__username="alice", target="user bob"
    ).exists()


def test_a_link_works_once(owner, bob):
    link = link_in(create_link(owner, bob).content.decode())
    choose_password(link)
    again = choose_password(link, "another long passphrase 8")
    assert "no longer valid" in again.content.decode()
    bob.refresh_from_db()
    assert bob.check_password(NEW_PASSWORD)


def test_link_expires_after_its_timeout(owner, bob, settings):
    link = link_in(create_link(owner, bob).content.decode())
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "no longer valid" in choose_password(link).content.decode()


def test_weak_password_is_refused_and_the_link_stays_valid(owner, bob):
    link = link_in(create_link(owner, bob).content.decode())
    assert "easy to guess" in choose_password(link, "password123").content.decode()
    assert choose_password(link).status_code == 302


def make_administrator(bob: User) -> None:
    bob.is_staff = True
    bob.save()


def join_another_project(bob: User) -> None:
    other = Project.objects.create(slug="other", title="Other")
    Membership.objects.create(project=other, user=bob, role=Membership.Role.VIEWER)


def become_simulated(bob: User) -> None:
    bob.is_simulated = True
    bob.save()


@pytest.mark.parametrize(
    "change", [make_administrator, join_another_project, become_simulated], ids=lambda f: f.__name__
)
def test_owner_cannot_reset_administrators_simulated_users_or_members_of_two_projects(
    owner, bob, change
):
    change(bob)
    assert create_link(owner, bob).status_code == 403
    assert "Reset link" not in owner.get("/projects/lab/").content.decode()


def test_owner_cannot_create_a_link_for_their_own_account(owner, alice):
    assert create_link(owner, alice).status_code == 403


def test_an_administrator_may_reset_a_member_of_several_projects(admin, bob):
    join_another_project(bob)
    client = Client()
    client.force_login(admin)
    assert create_link(client, bob).status_code == 200


def test_login_page_links_to_reset_instructions_if_no_email_is_sent(db):
    assert ASK in Client().get("/accounts/login/").content.decode()
    assert "sends no e-mail" in Client().get(ASK).content.decode()
    assert "sends no e-mail" in Client().post(ASK, {"email": "bob@example.com"}).content.decode()


def test_link_is_sent_by_email(mailed, bob):
    assert Client().post(ASK, {"email": "Bob@example.com"}).url == ASK + "done/"
    text = wait_for_mail(mailed)
    assert "account bob" in text
    assert choose_password(link_in(text)).status_code == 302
    bob.refresh_from_db()
    assert bob.check_password(NEW_PASSWORD)


def test_unknown_address_gets_the_same_response_but_no_mail(mailed, bob):
    answer = Client().post(ASK, {"email": "nobody@example.com"})
    assert answer.url == ASK + "done/"
    Client().post(ASK, {"email": "bob@example.com"})
    wait_for_mail(mailed)  # sent after any mail of the first request
    assert [message.to for message in mailed] == [["bob@example.com"]]


def test_unreachable_mail_server_is_logged_but_not_shown(settings, bob, mailed, caplog):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = 1  # no server listens there
    assert Client().post(ASK, {"email": "bob@example.com"}).status_code == 302
    end = time.monotonic() + DEADLINE_S
    while "account_mail_not_sent" not in caplog.text:
        assert time.monotonic() < end, "the failure is not in the log"
        time.sleep(0.01)


def set_email(client: Client, email: str, password: str):
    return client.post("/settings/email/", {"email": email, "password": password})


def test_user_sets_an_email_address_with_their_password(settings, owner, alice):
    settings.EMAIL_HOST = "mail.example"
    assert set_email(owner, "alice@example.com", PASSWORD).url == "/settings/"
    alice.refresh_from_db()
    assert alice.email == "alice@example.com"


@pytest.mark.parametrize(
    ("email", "password", "message"),
    [
        ("alice@example.com", "wrong", "This is not your password."),
        ("no address", PASSWORD, "Enter a valid email address."),
    ],
)
def test_refused_address_is_explained_and_kept_in_the_form(
    settings, owner, alice, email, password, message
):
    settings.EMAIL_HOST = "mail.example"
    answer = set_email(owner, email, password)
    assert answer.status_code == 422
    assert message in answer.content.decode() and email in answer.content.decode()
    alice.refresh_from_db()
    assert alice.email == ""
