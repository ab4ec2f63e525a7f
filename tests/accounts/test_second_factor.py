"""Where a second factor is required, administrators can do nothing before they set one up."""

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from apps.accounts.models import Token

pytestmark = pytest.mark.django_db
SET_UP = "/accounts/2fa/totp/activate/"


@pytest.fixture
def required(settings) -> None:
    settings.REQUIRE_MFA_FOR_STAFF = True


def browser_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def bearer(user) -> dict:
    _, secret = Token.issue(user, "program", ["read"])
    return {"HTTP_AUTHORIZATION": f"Bearer {secret}"}


def test_administrator_without_a_second_factor_is_redirected_to_set_it_up(required, admin):
    browser = browser_of(admin)
    for address in ("/", "/runs/", "/admin/"):
        answer = browser.get(address)
        assert (answer.status_code, answer["Location"]) == (302, SET_UP)
    assert browser.get("/api/v1/runs/").status_code == 403


def test_administrator_with_a_second_factor_has_access(required, admin):
    Authenticator.objects.create(user=admin, type=Authenticator.Type.TOTP, data={"secret": "x"})
    assert browser_of(admin).get("/runs/").status_code == 200
    assert Client().get("/api/v1/runs/", **bearer(admin)).status_code == 200


def test_token_of_an_administrator_without_a_second_factor_is_refused(required, admin):
    assert Client().get("/api/v1/runs/", **bearer(admin)).status_code == 401


def test_other_users_need_no_second_factor(required, alice):
    assert browser_of(alice).get("/runs/").status_code == 200
    assert Client().get("/api/v1/runs/", **bearer(alice)).status_code == 200


def test_administrator_needs_no_second_factor_if_it_is_not_required(admin):
    assert browser_of(admin).get("/runs/").status_code == 200
