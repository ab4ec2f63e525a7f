"""The page of the REST interface loads only local files, and executes the calls tried on it."""

import pytest
from django.urls import reverse

from apps.environments.models import Environment
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_signed_in_user_can_execute_a_call_on_the_page(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("api:docs"))
    operation = page.locator("#operations-environments-environments_create")
    operation.click()
    operation.get_by_text("Try it out").click()
    operation.locator("textarea").fill('{"project": "lab", "name": "tried-here"}')
    operation.get_by_text("Execute").click()
    operation.locator(".live-responses-table .response-col_status", has_text="201").wait_for()
    assert elsewhere(
        lambda: Environment.objects.filter(name="tried-here", created_by__username="alice").exists()
    )
    assert window.complaints == []
    assert all(address.startswith((window.site, "data:", "blob:")) for address in window.fetched)


def test_anonymous_user_is_redirected_from_the_page(client):
    assert client.get(reverse("api:docs")).status_code == 302
