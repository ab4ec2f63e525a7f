"""Signing in: with the right password only, not for ever, and while Redis is gone."""

import secrets

import pytest
from django.test import Client

from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"


def sign_in(username: str, password: str) -> int:
    """The status of the answer.

    Every attempt comes from an address of its own: only the account is counted.
    """
    address = f"198.51.100.{secrets.randbelow(256)}"
    client = Client(raise_request_exception=False, REMOTE_ADDR=address)
    return client.post(LOGIN, {"login": username, "password": password}).status_code


def test_the_right_password_and_no_other_opens(alice):
    assert sign_in("alice", PASSWORD) == 302
    assert sign_in("alice", "wrong") == 200
    assert sign_in("nobody", PASSWORD) == 200


def test_nobody_signs_up(db):
    answer = Client().get("/accounts/signup/")
    assert (answer.status_code, answer["Location"]) == (302, LOGIN)


def test_signing_in_needs_no_redis(alice, dead_redis):
    assert sign_in("alice", PASSWORD) == 302


def test_guessing_ends_after_a_few_attempts(alice):
    for n in range(12):
        sign_in("alice", f"guess {n}")
    assert sign_in("alice", PASSWORD) != 302


def test_strangers_who_guess_do_not_keep_the_owner_out(alice):
    owner = Client(raise_request_exception=False, REMOTE_ADDR="203.0.113.7")
    assert owner.post(LOGIN, {"login": "alice", "password": PASSWORD}).status_code == 302
    owner.post("/accounts/logout/")
    for n in range(12):
        sign_in("alice", f"guess {n}")
    assert sign_in("alice", PASSWORD) != 302  # from a browser that nobody knows
    assert owner.post(LOGIN, {"login": "alice", "password": PASSWORD}).status_code == 302


def test_a_known_browser_may_not_guess_for_ever(alice):
    browser = Client(raise_request_exception=False, REMOTE_ADDR="203.0.113.8")
    browser.post(LOGIN, {"login": "alice", "password": PASSWORD})
    browser.post("/accounts/logout/")
    for n in range(12):
        browser.post(LOGIN, {"login": "alice", "password": f"guess {n}"})
    assert browser.post(LOGIN, {"login": "alice", "password": PASSWORD}).status_code != 302
