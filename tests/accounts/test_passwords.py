"""New passwords must be hard to guess, and a new password revokes older tokens."""

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.test import Client

from apps.accounts.models import Token, User
from tests.conftest import PASSWORD

WEAK = (
    "aaaaaaaaaaaa",
    "passwordpassword",
    "qwertyuiop12",
    "alicealice12",
    "123456789012",
    "rftweb",
)


@pytest.mark.parametrize("password", WEAK)
def test_a_password_that_is_easy_to_guess_is_refused(password):
    with pytest.raises(ValidationError):
        validate_password(password, User(username="alice"))


@pytest.mark.parametrize("password", [PASSWORD, "grey teapot under nine ladders", "vK9#mQ2$xL7!"])
def test_a_password_that_is_hard_to_guess_passes(password):
    validate_password(password, User(username="alice"))


def status_with(secret: str) -> int:
    return Client().get("/api/v1/runs/", HTTP_AUTHORIZATION=f"Bearer {secret}").status_code


@pytest.mark.django_db
def test_password_change_revokes_older_tokens(alice):
    _, before = Token.issue(alice, "before", ["read"])
    assert status_with(before) == 200
    alice.set_password("grey teapot under nine ladders")
    alice.save()
    _, after = Token.issue(alice, "after", ["read"])
    assert (status_with(before), status_with(after)) == (401, 200)


@pytest.mark.django_db
def test_rehash_of_a_known_password_revokes_no_token(alice, settings):
    alice.set_password(PASSWORD)
    alice.save()
    _, secret = Token.issue(alice, "program", ["read"])
    settings.PASSWORD_HASHERS = list(reversed(settings.PASSWORD_HASHERS))
    assert Client().login(username="alice", password=PASSWORD)
    assert User.objects.get(pk=alice.pk).password.startswith("pbkdf2")
    assert status_with(secret) == 200
