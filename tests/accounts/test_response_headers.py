"""Every response disables browser features and sets who may store it."""

import pytest
from django.test import Client

from apps.accounts.downloads import csv_cell

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(admin) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.mark.parametrize(
    "address", ["/runs/", "/api/v1/runs/", "/accounts/login/", "/nothing-here/"]
)
def test_camera_and_microphone_are_disabled(browser, address):
    policy = browser.get(address)["Permissions-Policy"]
    assert "camera=()" in policy
    assert "microphone=()" in policy


@pytest.mark.parametrize("address", ["/api/v1/runs/", "/admin/", "/accounts/2fa/"])
def test_personal_responses_are_not_stored(browser, address):
    assert "no-store" in browser.get(address)["Cache-Control"]


def test_page_may_be_stored_by_the_browser_only(browser):
    assert browser.get("/runs/")["Cache-Control"] == "private, no-cache"


def test_sign_out_clears_the_browser_cache(browser):
    assert browser.post("/accounts/logout/")["Clear-Site-Data"] == '"cache"'


def test_admin_pages_allow_scripts_from_this_site_only(browser):
    policy = browser.get("/admin/")["Content-Security-Policy"]
    directives = dict(part.split(None, 1) for part in policy.split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].split() == ["'self'", "'unsafe-eval'"]
    assert "unsafe" not in browser.get("/runs/")["Content-Security-Policy"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1"])
def test_spreadsheet_formula_in_a_csv_cell_is_escaped(text):
    assert csv_cell(text) == "'" + text


@pytest.mark.parametrize("value", [-1.5, 0, None, "", "a=b", "maths"])
def test_other_csv_cells_stay_unchanged(value):
    assert csv_cell(value) is value
