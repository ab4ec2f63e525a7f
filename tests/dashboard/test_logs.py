"""Logs: who can read which lines, how they are searched, and how they refresh."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import User
from apps.dashboard import log_search
from apps.runs.models import LogLine, Run, Worker

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def say(
    event: str,
    run: Run | None = None,
    level: int = LogLine.Level.INFO,
    at: datetime = NOON,
    **fields: object,
) -> LogLine:
    return LogLine.objects.create(
        event=event, run=run, level=level, at=at, worker="scorer@here:1:1", fields=fields
    )


@pytest.fixture
def page(run) -> str:
    return reverse("run-logs", args=[run.project.slug, run.slug])


@pytest.fixture
def watched(client, alice):
    client.force_login(alice)
    return client


def text(client, address: str, **asked: str) -> str:
    return client.get(address, asked).content.decode()


def test_run_log_shows_only_lines_of_the_run(watched, page, run, new_run):
    say("step_committed", run, step=4)
    say("of_another_run", new_run())
    say("of_no_run")
    shown = text(watched, page)
    assert "step_committed" in shown and "of_another_run" not in shown and "of_no_run" not in shown


def test_log_page_shows_members_lines_of_their_runs_and_staff_lines_of_no_run(
    client, alice, carol, admin, run
):
    say("step_committed", run)
    say("database_unavailable")
    seen = {}
    keeper = User.objects.create(username="keeper", is_staff=True)
    for person in (alice, carol, keeper, admin):
        client.force_login(person)
        shown = text(client, reverse("logs"))
        seen[person.username] = ("step_committed" in shown, "database_unavailable" in shown)
    assert seen == {
        "alice": (True, False),
        "carol": (False, False),
        "keeper": (False, True),
        "root": (True, True),
    }


def test_blind_rater_sees_no_log_lines_of_the_run(client, bob, page, run):
    say("step_committed", run, loss=0.25)
    Worker.objects.create(key="scorer@here:1:1", role=Worker.Role.SCORER, host="here", pid=1)
    client.force_login(bob)
    of_worker = reverse("worker-logs", args=[Worker.objects.get().pk])
    pages = [page, reverse("logs"), of_worker, f"{page}?as=jsonl", f"{page}?part=lines"]
    assert all("step_committed" not in client.get(address).getvalue().decode() for address in pages)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, {"scored", "engine_died", "swept"}),
        ({"level": "40"}, {"engine_died"}),
        ({"words": "memory"}, {"engine_died"}),
        ({"words": "OUT memory"}, {"engine_died"}),
        ({"words": "scored"}, {"scored"}),
        ({"words": "100%"}, set()),
        ({"since": "2026-05-04T12:30"}, {"swept"}),
        ({"until": "2026-05-04T11:30"}, {"engine_died"}),
    ],
)
def test_lines_are_searched_by_level_text_and_time(watched, page, run, asked, found):
    say("scored", run, groups=[3])
    say("engine_died", run, LogLine.Level.ERROR, NOON - timedelta(hours=1), reason="out of memory")
    say("swept", run, at=NOON + timedelta(hours=1))
    lines = [
        json.loads(line)
        for line in watched.get(page, {**asked, "as": "jsonl"}).getvalue().splitlines()
    ]
    assert {line["event"] for line in lines} == found
    shown = text(watched, page, **asked)
    assert {
        event for event in ("scored", "engine_died", "swept") if f"<b>{event}</b>" in shown
    } == found


@pytest.mark.parametrize(
    ("asked", "words"), [({"level": "7"}, "choice"), ({"since": "noon"}, "valid date/time")]
)
def test_invalid_search_is_refused_at_its_field(watched, page, asked, words):
    answer = watched.get(page, asked)
    assert answer.status_code == 422 and words in answer.content.decode()
    assert watched.get(page, {**asked, "as": "jsonl"}).status_code == 422


def test_lines_are_sent_again_only_if_there_are_new_ones(watched, page, run):
    say("scored", run)
    first = watched.get(page, {"part": "lines"})
    again = watched.get(page, {"part": "lines"}, headers={"If-None-Match": first["ETag"]})
    say("engine_died", run)
    then = watched.get(page, {"part": "lines"}, headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, again.content, then.status_code) == (
        200,
        304,
        b"",
        200,
    )
    assert "part=lines" not in then.content.decode()


def test_link_to_a_line_shows_that_line_first(watched, page, run):
    lines = [say(f"said_{n}", run) for n in range(60)]
    shown = text(watched, page, before=str(lines[3].pk + 1))
    assert shown.index(f'id="line-{lines[3].pk}"') < shown.index(f'id="line-{lines[2].pk}"')
    assert "said_4<" not in shown and "data-refresh-ms" not in shown


def test_downloaded_log_contains_all_fields_as_json(watched, page, run):
    say("scored", run, groups=[3], reward=0.5)
    answer = watched.get(page, {"as": "jsonl"})
    [line] = [json.loads(line) for line in answer.getvalue().splitlines()]
    assert (line["run"], line["event"], line["fields"]) == (
        "lab/run-0",
        "scored",
        {"groups": [3], "reward": 0.5},
    )
    assert 'filename="log-run-0.jsonl"' in answer["Content-Disposition"]


def test_details_of_a_line_are_loaded_on_opening_and_have_a_url(watched, page, run):
    line = say(
        "engine_died",
        run,
        LogLine.Level.ERROR,
        reason="x" * 200,
        traceback="Traceback (most recent call last)",
    )
    own = reverse("log-line", args=[line.pk])
    shown = text(watched, page)
    assert "Traceback" not in shown and "x" * 200 not in shown
    assert f'href="{own}"' in shown and f'hx-get="{own}?part=details"' in shown
    alone = text(watched, own)
    details = text(watched, own, part="details")
    assert all("Traceback (most recent" in told and "x" * 200 in told for told in (alone, details))
    assert "<html" in alone and "<html" not in details


def test_log_line_is_open_only_to_readers_of_its_log(client, cast, run):
    line = reverse("log-line", args=[say("step_committed", run, loss=0.25).pk])
    of_no_run = reverse("log-line", args=[say("database_unavailable").pk])
    met = {}
    for person in (cast.alice, cast.bob, cast.carol, cast.admin):
        client.force_login(person)
        met[person.username] = (client.get(line).status_code, client.get(of_no_run).status_code)
    assert met == {"alice": (200, 404), "bob": (404, 404), "carol": (404, 404), "root": (200, 200)}


def test_search_through_lines_hidden_from_the_user_is_limited(client, carol, run, monkeypatch):
    monkeypatch.setattr(log_search, "LOOKED_THROUGH", 3)
    Worker.objects.create(key="scorer@here:1:1", role=Worker.Role.SCORER, host="here", pid=1)
    for n in range(5):
        say(f"said_{n}", run)
    client.force_login(carol)
    for address in (reverse("logs"), reverse("worker-logs", args=[Worker.objects.get().pk])):
        shown = text(client, address)
        assert "Select “older” to continue" in shown and "said_" not in shown


def test_staff_see_which_lines_are_included(client, admin, run):
    keeper = User.objects.create(username="keeper", is_staff=True)
    for person, words in (
        (admin, "all processes, newest first"),
        (keeper, "lines about your runs and about no run"),
    ):
        client.force_login(person)
        assert words in text(client, reverse("logs"))


def test_hostile_lines_are_escaped(watched, page, run):
    hostile = say("<script>alert(1)</script>", run, reason="<img src=x onerror=alert(1)>")
    shown = text(watched, page) + text(watched, reverse("log-line", args=[hostile.pk]))
    assert "<script>alert" not in shown and "<img src=x" not in shown


def test_lines_are_deleted_by_age_and_number(run):
    now = datetime.now(UTC)
    say("old", run, at=now - timedelta(days=20))
    kept = [say(f"new_{n}", run, at=now) for n in range(5)]
    assert LogLine.objects.prune(days=14, lines=1000) == 1
    assert LogLine.objects.prune(days=14, lines=2) == 3
    assert list(LogLine.objects.order_by("pk")) == kept[3:]


def test_number_of_queries_does_not_grow_with_lines(watched, page, run):
    assert queries(watched, page, run, 3) == queries(watched, page, run, 200) <= 14


def queries(client, page: str, run: Run, lines: int) -> int:
    for n in range(lines):
        say(f"said_{n}", run)
    with CaptureQueriesContext(connection) as captured:
        client.get(page)
    return len(captured)
