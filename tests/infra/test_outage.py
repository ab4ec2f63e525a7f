"""A page that needs the database while the database is away."""

import pytest
from django.db import OperationalError, connection, transaction
from django.urls import reverse

from apps.dashboard.views import run_list, steering


@pytest.fixture
def away(monkeypatch):
    def refuse(*_, **__):
        raise OperationalError("the connection is lost")

    monkeypatch.setattr("apps.dashboard.views.run_list.load_page", refuse)


def test_page_returns_503_with_retry_after_when_the_database_is_away(client, alice, away):
    client.force_login(alice)
    answer = client.get(reverse("runs"))
    assert answer.status_code == 503 and answer["Retry-After"] == "5"
    assert "The database is not responding" in answer.content.decode()


def test_other_errors_return_500(client, alice, monkeypatch):
    client.force_login(alice)
    client.raise_request_exception = False
    monkeypatch.setattr("apps.dashboard.views.run_list.load_page", lambda *_, **__: 1 / 0)
    answer = client.get(reverse("runs"))
    assert answer.status_code == 500 and "Something went wrong" in answer.content.decode()


def colliding(times: int, work=None, code: str = "40P01"):
    """Return `work` so that its first calls fail as the victim of a deadlock does in PostgreSQL."""
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
def test_page_is_read_again_after_a_conflict(client, alice, monkeypatch, times, status):
    client.force_login(alice)
    collide = colliding(times, run_list.load_page)
    monkeypatch.setattr("apps.dashboard.views.run_list.load_page", collide)
    answer = client.get(reverse("runs"))
    assert answer.status_code == status and len(collide.calls) > min(times, 4)
    assert (answer.get("Retry-After") == "1") is (status == 503)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("code", ["40P01", "55P03"])  # a deadlock, or a lock that others hold
def test_post_is_not_retried_after_a_conflict_and_the_user_may_submit_again(
    client, alice, monkeypatch, run, code
):
    client.force_login(alice)
    collide = colliding(99, code=code)
    monkeypatch.setitem(steering.ACTS, "pause", collide)
    answer = client.post(reverse("run-act", args=[run.project.slug, run.slug, "pause"]))
    assert (answer.status_code, answer["Retry-After"], len(collide.calls)) == (503, "1", 1)
    assert "submit it again" in answer.content.decode()
