"""Calls need a valid token with the right scope, in the header only."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Token

pytestmark = pytest.mark.django_db


def test_request_without_a_token_gets_401_with_the_scheme(stranger):
    answer = stranger.get("runs/")
    assert (answer.status_code, answer["WWW-Authenticate"], answer["Content-Type"]) == (
        401,
        "Bearer",
        "application/problem+json",
    )


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer a b",
        "Bearer rft_usr_unknown",
        "Bearer rft_usr_\xff",
        "Bearer " + "x" * 5_000,
    ],
)
def test_authorization_header_without_a_valid_token_is_refused(header, db):
    assert Client().get("/api/v1/runs/", headers={"Authorization": header}).status_code == 401


@pytest.mark.parametrize("header", ["Basic YWxpY2U6eA==", "rft_usr_x", "Token rft_usr_x"])
def test_other_authentication_schemes_are_refused(header, db):
    assert Client().get("/api/v1/runs/", headers={"Authorization": header}).status_code == 401


def test_token_in_the_query_string_is_refused(program, alice):
    secret = program(alice).secret
    for name in ("token", "access_token", "authorization"):
        assert Client().get(f"/api/v1/runs/?{name}={secret}").status_code == 401
        assert program(alice).get("runs/", **{name: secret}).status_code == 422


def test_token_is_refused_if_revoked_or_expired_or_its_user_is_inactive(program, alice):
    caller = program(alice)
    assert caller.get("runs/").status_code == 200
    token = Token.objects.get()
    token.revoke()
    assert caller.get("runs/").status_code == 401
    Token.objects.update(revoked_at=None, expires_at=timezone.now() - timedelta(seconds=1))
    assert caller.get("runs/").status_code == 401
    Token.objects.update(expires_at=timezone.now() + timedelta(days=1))
    alice.is_active = False
    alice.save()
    assert caller.get("runs/").status_code == 401


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ("read", {"runs/": 200, "rating-queue/": 403}),
        ("rate", {"runs/": 403, "rating-queue/": 200}),
        ("steer", {"runs/": 403, "rollouts/": 403}),
    ],
)
def test_token_allows_only_what_its_scopes_permit(program, alice, scope, status):
    caller = program(alice, scope)
    assert {path: caller.get(path).status_code for path in status} == status


def test_error_contains_the_missing_scope(program, alice):
    assert "`steer`" in program(alice, "read").post("runs/").json()["detail"]


def test_last_use_of_a_token_is_updated_at_most_once_a_minute(program, alice):
    caller = program(alice)
    caller.get("runs/")
    first = Token.objects.get().last_used_at
    caller.get("runs/")
    assert first is not None and Token.objects.get().last_used_at == first
    Token.objects.update(last_used_at=first - timedelta(minutes=2))
    caller.get("runs/")
    assert Token.objects.get().last_used_at >= first


def test_signed_in_browser_can_read_and_needs_a_csrf_token_to_write(alice):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    assert browser.get("/api/v1/runs/").status_code == 200
    refused = browser.post("/api/v1/ratings/", b"{}", content_type="application/json")
    assert refused.status_code == 403 and "CSRF" in refused.json()["detail"]
