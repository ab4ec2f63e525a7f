"""Where a second factor is required, administrators can do nothing before they set one up."""

from pathlib import Path

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from apps.accounts.models import Token

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.django_db
SET_UP = "/accounts/2fa/totp/activate/"


@pytest.fixture
def required(settings) -> None:
    settings.REQUIRE_MFA_FOR_STAFF = True


def browser_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def bearer(user, *scopes: str) -> dict:
    _, secret = Token.issue(user, "program", list(scopes or ["read"]))
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


@pytest.mark.parametrize(
    ("address", "scope"),
    [
        ("/api/v1/runs/", "read"),
        ("/v1/models", "agent:1"),
        ("/openenv/guess_number/metadata", "env:play:*"),
        ("/metrics", "read"),
    ],
)
def test_token_of_an_administrator_without_a_second_factor_is_refused(
    required, admin, address, scope
):
    answer = Client().get(address, **bearer(admin, scope))
    assert answer.status_code == 401
    assert "must set up two-factor authentication first" in answer.content.decode()


def test_only_the_module_of_authentication_looks_tokens_up():
    """A second place would have to repeat the check of the owner's second factor."""
    sources = [*(ROOT / "apps").rglob("*.py"), *(ROOT / "rftweb").rglob("*.py")]
    callers = [path for path in sources if "Token.objects.presented(" in path.read_text()]
    assert callers == [ROOT / "apps/accounts/authentication.py"]


def test_other_users_need_no_second_factor(required, alice):
    assert browser_of(alice).get("/runs/").status_code == 200
    assert Client().get("/api/v1/runs/", **bearer(alice)).status_code == 200


def test_administrator_needs_no_second_factor_if_it_is_not_required(admin):
    assert browser_of(admin).get("/runs/").status_code == 200
