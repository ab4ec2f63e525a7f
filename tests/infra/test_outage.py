"""A page that needs the database while it is away."""

import pytest
from django.db import OperationalError, connection, transaction
from django.urls import reverse

from apps.dashboard.views import run_list, steering


@pytest.fixture
def away(monkeypatch):
    def refuse(*_, **__):
        raise OperationalError("the connection is lost")

    monkeypatch.setattr("apps.dashboard.views.run_list.load_page", refuse)


def test_says_so_and_when_to_come_back(client, alice, away):
    client.force_login(alice)
    answer = client.get(reverse("runs"))
    assert answer.status_code == 503 and answer["Retry-After"] == "5"
    assert "The database is not responding" in answer.content.decode()


def test_another_error_stays_a_fault(client, alice, monkeypatch):
    client.force_login(alice)
    client.raise_request_exception = False
    monkeypatch.setattr("apps.dashboard.views.run_list.load_page", lambda *_, **__: 1 / 0)
    answer = client.get(reverse("runs"))
    assert answer.status_code == 500 and "Something went wrong" in answer.content.decode()


def colliding(times: int, work=None, code: str = "40P01"):
    """The work, but first PostgreSQL ends it that often, as it does the victim of a deadlock."""
    calls = []

    def collide(*args, **kwargs):
        calls.append(1)
        if len(calls) <= times:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"DO $$ BEGIN RAISE 'ended' USING ERRCODE = '{code}'; END $$")
        return work(*args, **kwargs)

    collide.calls = calls
    return collide


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("times", "status"), [(2, 200), (99, 503)])
def test_a_page_is_read_again_after_a_conflict(client, alice, monkeypatch, times, status):
    client.force_login(alice)
    collide = colliding(times, run_list.load_page)
    monkeypatch.setattr("apps.dashboard.views.run_list.load_page", collide)
    answer = client.get(reverse("runs"))
    assert answer.status_code == status and len(collide.calls) > min(times, 4)
    assert (answer.get("Retry-After") == "1") is (status == 503)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("code", ["40P01", "55P03"])  # a deadlock, or a lock that others keep
def test_what_was_sent_is_not_sent_again_by_us_but_said_to_be_free_for_it(
    client, alice, monkeypatch, run, code
):
    client.force_login(alice)
    collide = colliding(99, code=code)
    monkeypatch.setitem(steering.ACTS, "pause", collide)
    answer = client.post(reverse("run-act", args=[run.project.slug, run.slug, "pause"]))
    assert (answer.status_code, answer["Retry-After"], len(collide.calls)) == (503, "1", 1)
    assert "submit it again" in answer.content.decode()
