"""Every response turns browser features off and says who may store it."""

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
def test_camera_and_microphone_are_off_everywhere(browser, address):
    policy = browser.get(address)["Permissions-Policy"]
    assert "camera=()" in policy
    assert "microphone=()" in policy


@pytest.mark.parametrize("address", ["/api/v1/runs/", "/admin/", "/accounts/2fa/"])
def test_what_is_personal_is_not_stored(browser, address):
    assert "no-store" in browser.get(address)["Cache-Control"]


def test_a_page_is_kept_by_the_browser_alone(browser):
    assert browser.get("/runs/")["Cache-Control"] == "private, no-cache"


def test_signing_out_empties_the_browsers_cache(browser):
    assert browser.post("/accounts/logout/")["Clear-Site-Data"] == '"cache"'


def test_the_administration_loads_no_script_of_another_site(browser):
    policy = browser.get("/admin/")["Content-Security-Policy"]
    directives = dict(part.split(None, 1) for part in policy.split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].split() == ["'self'", "'unsafe-eval'"]
    assert "unsafe" not in browser.get("/runs/")["Content-Security-Policy"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_a_spreadsheet_would_run_is_a_text(text):
    assert csv_cell(text) == "'" + text


@pytest.mark.parametrize("value", [-1.5, 0, None, "", "a=b", "maths"])
def test_other_cells_stay_as_they_are(value):
    assert csv_cell(value) is value
