"""Sign-in needs the right password, limits attempts, and works without Redis."""

import secrets

import pytest
from django.test import Client

from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"


def sign_in(username: str, password: str) -> int:
    """Return the status of the response.

    Each attempt uses a new address, so only the limit per account applies.
    """
    address = f"198.51.100.{secrets.randbelow(256)}"
    client = Client(raise_request_exception=False, REMOTE_ADDR=address)
    return client.post(LOGIN, {"login": username, "password": password}).status_code


def test_only_the_right_password_signs_in(alice):
    assert sign_in("alice", PASSWORD) == 302
    assert sign_in("alice", "wrong") == 200
    assert sign_in("nobody", PASSWORD) == 200


def test_sign_up_page_redirects_to_login(db):
    answer = Client().get("/accounts/signup/")
    assert (answer.status_code, answer["Location"]) == (302, LOGIN)


def test_sign_in_works_without_redis(alice, dead_redis):
    assert sign_in("alice", PASSWORD) == 302


def test_account_is_locked_after_repeated_wrong_passwords(alice):
    for n in range(12):
        sign_in("alice", f"guess {n}")
    assert sign_in("alice", PASSWORD) != 302


def test_owner_can_sign_in_from_a_known_browser_while_strangers_guess(alice):
    owner = Client(raise_request_exception=False, REMOTE_ADDR="203.0.113.7")
    assert owner.post(LOGIN, {"login": "alice", "password": PASSWORD}).status_code == 302
    owner.post("/accounts/logout/")
    for n in range(12):
        sign_in("alice", f"guess {n}")
    assert sign_in("alice", PASSWORD) != 302  # from an unknown browser
    assert owner.post(LOGIN, {"login": "alice", "password": PASSWORD}).status_code == 302


def test_known_browser_is_also_locked_after_repeated_wrong_passwords(alice):
    browser = Client(raise_request_exception=False, REMOTE_ADDR="203.0.113.8")
    browser.post(LOGIN, {"login": "alice", "password": PASSWORD})
    browser.post("/accounts/logout/")
    for n in range(12):
        browser.post(LOGIN, {"login": "alice", "password": f"guess {n}"})
    assert browser.post(LOGIN, {"login": "alice", "password": PASSWORD}).status_code != 302
