"""The run's page shows how a run serves: open, answered, waiting and refused sessions."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.dashboard.serving import Serving, serving_now
from apps.environments.models import TurnedAway
from tests.serving import SERVED, answered, asked, written


@pytest.fixture
def run(new_run):
    return new_run(**SERVED, serve={"over_bound": "answer_only"}, max_staleness=0)


@pytest.fixture
def page(client, alice, run):
    client.force_login(alice)
    return lambda: client.get(reverse("run", args=["lab", run.slug])).content.decode()


def test_sessions_are_counted_by_state(run, alice):
    written(answered(run, alice))
    answered(run, alice)
    asked(run, alice, "mine")
    for _ in range(2):
        TurnedAway.note(run)
    run.refresh_from_db()
    assert serving_now(run) == Serving(
        sessions=3, open=2, waiting=1, answered=2, answered_only=1, refused=2
    )


def test_only_the_newest_sessions_are_counted_and_the_page_says_so(run, alice, page, monkeypatch):
    monkeypatch.setattr("apps.dashboard.serving.NEWEST", 2)
    for _ in range(4):
        answered(run, alice)
    run.refresh_from_db()
    with CaptureQueriesContext(connection) as captured:
        now = serving_now(run)
    assert (now.sessions, now.answered, now.answered_only, now.is_cut, len(captured)) == (
        4,
        2,
        2,
        True,
        5,
    )
    assert "newest 2</small>" in page()


def test_page_shows_what_happens_to_requests_over_the_limit(run, alice, page):
    asked(run, alice)
    shown = page()
    assert "requests through the gateway" in shown and "answered, not trained on" in shown
    run.change_config(alice, serve={"over_bound": "refuse", "settle_s": None})
    shown = page()
    assert "refused, with Retry-After" in shown and "can be changed" not in shown


def test_run_that_draws_its_tasks_shows_no_gateway_requests(client, alice, new_run):
    client.force_login(alice)
    shown = client.get(reverse("run", args=["lab", new_run().slug])).content.decode()
    assert "requests through the gateway" not in shown
