"""The admin site works under its CSP: its scripts run, and nothing is blocked."""

import pytest

from apps.accounts.models import User
from tests.browser.conftest import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PAGES = ("/admin/", "/admin/accounts/user/", "/admin/accounts/user/add/", "/admin/runs/run/")


@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desktop", "phone"])
def test_admin_pages_open_without_browser_errors(visit, seeded, viewport):
    root = User.objects.create(username="root", is_staff=True, is_superuser=True)
    window = visit(root, **({"viewport": viewport} if viewport else {}))
    for address in PAGES:
        page = window.open(address)
        page.wait_for_function("() => window.Alpine !== undefined")
        assert page.locator("h1, h2").count(), address
    assert window.complaints == []
