"""An administrator sets up a fresh site: a project, people, a second factor, alerts, tokens."""

import time

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Project, Token, User
from apps.alerts.models import Channel
from apps.dashboard.context import PLACES
from tests.conftest import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NEW_PASSWORD = "a long new passphrase 7"
PERIOD_S = 30  # of a code


def save(page) -> None:
    """Save the form of the admin site and wait for its list."""
    page.locator("button[name=_save], input[name=_save]").first.click()
    page.wait_for_selector("text=was added successfully")


def test_an_administrator_sets_up_a_fresh_site(visit, may_log_in, transactional_db):
    root = User.objects.create(username="root", is_staff=True, is_superuser=True)
    may_log_in(root)
    window = visit(None)
    page = window.open("/settings/")
    window.log_in("root")

    set_up_second_factor(window, page)

    page = window.open(reverse("admin:accounts_user_add"))
    page.fill("#id_username", "rita")
    page.fill("#id_password1", NEW_PASSWORD)
    page.fill("#id_password2", NEW_PASSWORD)
    page.locator("button[name=_save], input[name=_save]").first.click()
    page.wait_for_url("**/change/")
    rita = User.objects.get(username="rita")

    page = window.open(reverse("admin:accounts_project_add"))
    page.fill("#id_slug", "support")
    page.fill("#id_title", "Customer support")
    save(page)
    project = Project.objects.get(slug="support")
    give_role(window, project, rita)
    assert Membership.objects.get(project=project, user=rita).role == "rater"

    hear_of_alerts(window, project)
    token = issue_token(window)
    look_around(window, project)

    page = window.open(reverse("admin:accounts_user_change", args=[rita.pk]))
    page.uncheck("#id_is_active")
    page.locator("button[name=_save], input[name=_save]").first.click()
    page.wait_for_selector("text=was changed successfully")
    page = window.open("/settings/")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("revoked", exact=True).wait_for()
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert window.complaints == []
    revoked_person_stays_out(visit)


def set_up_second_factor(window, page) -> None:
    page.get_by_role("link", name="Two-factor authentication").click()
    page.locator("a[href*='totp/activate']").first.click()
    page.fill("#id_password", PASSWORD)  # it is required again
    window.press("Enter")
    secret = page.locator("#authenticator_secret").input_value()
    activate = page.url
    for _ in range(2):  # a period may end before the code arrives
        page.fill("#id_code", format_hotp_value(hotp_value(secret, int(time.time()) // PERIOD_S)))
        with page.expect_navigation():
            window.press("Enter")
        if page.url != activate:
            break
    page.wait_for_url("**/2fa/recovery-codes/**")


def give_role(window, project: Project, person: User) -> None:
    page = window.open(reverse("admin:accounts_project_change", args=[project.pk]))
    page.get_by_text("Add another Membership").click()
    page.locator("tr, .form-row").locator(".select2-selection").first.click()
    page.keyboard.type(person.username)
    page.locator(".select2-results__option", has_text=person.username).click()
    page.select_option("#id_memberships-0-role", "rater")
    page.locator("button[name=_save], input[name=_save]").first.click()
    page.wait_for_selector("text=was changed successfully")


def hear_of_alerts(window, project: Project) -> None:
    page = window.open(reverse("alert-channels", args=[project.slug]))
    page.fill("#id_address", "not an address")
    window.press("Enter")
    page.locator("#id_address_error").wait_for()
    window.complaints.clear()  # the browser reports the 422
    page.fill("#id_address", "https://chat.example.org/hooks/1")
    window.press("Enter")
    page.locator("[data-secret]").wait_for()
    channel = Channel.objects.get(project=project)
    page.get_by_label("More actions for").click()
    page.get_by_role("button", name="Turn off").click()
    page.get_by_text("Channel turned off").wait_for()
    channel.refresh_from_db()
    assert not channel.is_on


def issue_token(window) -> Token:
    page = window.open("/settings/")
    page.fill("#id_name", "nightly export")
    page.locator("[name=scopes][value='read']").check()
    page.get_by_role("button", name="Create token").click()
    page.locator("[data-secret]").wait_for()
    return Token.objects.get(name="nightly export")


def look_around(window, project: Project) -> None:
    page = window.open("/workers/")
    page.get_by_role("heading", name="Workers", exact=True).wait_for()
    window.press("?")
    page.get_by_role("heading", name="Keyboard shortcuts").wait_for()
    window.press("g", "l")  # keys pressed in a dialog don't reach the page
    assert page.url.endswith("/workers/")
    window.press("Escape")
    for name, _, key in PLACES:
        go = page.locator("[data-keys-sheet] dt kbd").first.text_content()
        window.press(go, key)
        page.wait_for_url(f"**{reverse(name)}")
    window.open(reverse("project-audit", args=[project.slug]))
    page.get_by_text("root").first.wait_for()
    assert AuditEntry.objects.filter(project=project).exists()
    window.open("/admin/")
    page.get_by_text("staff with a second factor").wait_for()


def revoked_person_stays_out(visit) -> None:
    window = visit(None)
    page = window.open("/accounts/login/")
    page.fill("#id_login", "rita")
    page.fill("#id_password", NEW_PASSWORD)
    with page.expect_navigation():
        window.press("Enter")
    assert window.open("/runs/").url.split("?")[0].endswith("/accounts/login/")
