"""An owner invites a colleague, who creates an account and rates, without an administrator."""

import pytest

from apps.accounts.models import Membership, User
from tests.browser.conftest import PHONE
from tests.browser.test_axe import findings

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NEW_PASSWORD = "a long new passphrase 7"


def test_an_owner_invites_a_colleague_who_joins_on_a_phone(visit, site, alice, transactional_db):
    owner = visit(alice)
    page = owner.open("/settings/")
    page.get_by_role("link", name="All projects").click()
    page.get_by_label("Name", exact=True).fill("Customer support")
    page.get_by_role("button", name="Create project").click()
    page.wait_for_url("**/projects/customer-support/")
    assert findings(page) == []
    page.get_by_label("People who can join").fill("2")
    page.get_by_label("Note (optional)").fill("the support team")
    page.get_by_role("button", name="Create invitation link").click()
    link = page.get_by_test_id("invitation-link").inner_text()
    assert link.startswith(site)
    page.get_by_role("button", name="Copy").wait_for()
    assert findings(page) == []

    colleague = visit(None, viewport=PHONE)
    page = colleague.open(link.removeprefix(site))
    assert findings(page) == []
    page.get_by_label("Username").fill("dora")
    page.get_by_label("Password", exact=True).fill(NEW_PASSWORD)
    page.get_by_label("Password confirmation").fill("something else")
    page.get_by_role("button", name="Create account and join").click()
    page.locator(".field-error").wait_for()
    assert page.get_by_label("Username").input_value() == "dora"
    page.get_by_label("Password", exact=True).fill(NEW_PASSWORD)
    page.get_by_label("Password confirmation").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Create account and join").click()
    page.wait_for_url("**/rate/")
    page.get_by_text("Welcome to Customer support").wait_for()
    dora = User.objects.get(username="dora")
    assert Membership.objects.get(user=dora).role == "rater"

    page = owner.open("/projects/customer-support/")
    role = page.get_by_label("Role of dora")
    role.select_option("researcher")
    page.locator("form:has([aria-label='Role of dora'])").get_by_role("button").click()
    page.get_by_text("dora is now researcher").wait_for()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_test_id("invitations").get_by_text("revoked").wait_for()
    page.get_by_role("button", name="Remove dora").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    page.get_by_text("no longer a member").wait_for()
    assert not Membership.objects.filter(user=dora).exists()
