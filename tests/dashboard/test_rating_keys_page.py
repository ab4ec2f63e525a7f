"""Settings: a person's own keys for the rating page."""

import pytest
from django.urls import reverse

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob_client(client, bob):
    client.force_login(bob)
    return client


def post(client, **keys):
    return client.post(reverse("rating-keys"), keys)


def test_changed_key_is_saved_for_this_person_alone(bob_client, bob, alice):
    assert post(bob_client, skip="q").status_code == 302
    bob.refresh_from_db()
    alice.refresh_from_db()
    assert (bob.rating_keys, alice.rating_keys) == ({"skip": "q"}, {})
    assert 'name="skip" value="q"' in bob_client.get(reverse("settings")).content.decode()


def test_key_already_in_use_is_rejected_and_nothing_changes(bob_client, bob):
    answer = post(bob_client, skip="f")
    page = answer.content.decode()
    bob.refresh_from_db()
    assert answer.status_code == 422 and bob.rating_keys == {}
    assert "F is already used: flag as broken." in page and 'name="skip" value="f"' in page


def test_all_keys_can_be_reset(bob_client, bob):
    post(bob_client, skip="q")
    post(bob_client, skip="q", defaults="1")
    bob.refresh_from_db()
    assert bob.rating_keys == {}
