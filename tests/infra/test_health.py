"""Health and metrics endpoints for load balancers and Prometheus."""

import uuid
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from apps.accounts.models import Token
from apps.alerts.models import Alert
from apps.evaluation.asking import start_evaluation
from apps.feedback.models import Rating
from apps.rollouts.models import Group
from apps.runs.evaluation import Questions
from apps.runs.models import Metric, Run, Worker, after
from apps.streaming import worker_notifications
from tests.dashboard.evaluating import evaluated, publish

NOBODY_LISTENS = "redis://127.0.0.1:1/0"


@pytest.fixture
def redis_away(settings):
    settings.REDIS_URL = NOBODY_LISTENS
    worker_notifications.connection.cache_clear()
    yield
    worker_notifications.connection.cache_clear()


def scraped(user, *scopes: str) -> str:
    _, secret = Token.issue(user, "prometheus", list(scopes) or [Token.Scope.READ])
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {secret}"})
    return answer.content.decode() if answer.status_code == 200 else str(answer.status_code)


def test_healthz_is_ok_without_any_service(redis_away):
    assert Client().get("/healthz").json() == {"process": "ok"}


def test_readyz_is_ok_while_postgres_answers(db):
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"postgres": "ok", "redis": "ok", "control": "ok"},
    )


def test_readyz_is_ok_without_redis_and_reports_it_away(db, redis_away):
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"postgres": "ok", "redis": "away", "control": "ok"},
    )


def test_readyz_fails_without_postgres(db):
    def refuse(*statement):
        raise DatabaseError("connection refused")

    with connection.execute_wrapper(refuse):
        answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["postgres"]) == (503, "away")
    assert answer.json()["control"] == "unknown"


def test_late_control_plane_is_reported_by_readyz_and_metrics(db, admin):
    web = Worker.every.create(key="web@here:1:1", role="web", host="here", pid=1)
    Worker.every.filter(pk=web.pk).update(started_at=after(-200))
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["control"]) == (200, "behind by 3 min")
    behind = next(
        line
        for line in scraped(admin).splitlines()
        if line.startswith("rftweb_control_sweep_age_seconds ")
    )
    assert float(behind.split()[1]) >= 200


def test_healthz_refuses_post_requests(client):
    assert client.post("/healthz").status_code == 405


@pytest.fixture(autouse=True)
def asked_each_time(settings):
    """Disable the cache of metrics, so that no test gets the response of another."""
    settings.METRICS_SECONDS = 0


def test_metrics_require_authentication(db):
    assert Client().get("/metrics").status_code == 401


def test_token_without_the_read_scope_cannot_read_metrics(bob):
    assert scraped(bob, Token.Scope.RATE) == "403"


def test_metrics_show_the_progress_of_each_run(bob, run, finish):
    finish(run)
    text = scraped(bob)
    assert 'rftweb_runs{state="running"} 1.0' in text
    assert 'rftweb_run_groups_opened_total{project="lab",run="run-0"} 1.0' in text
    assert 'rftweb_groups{project="lab",run="run-0",state="scoring"} 1.0' in text
    assert 'rftweb_run_planned_steps{project="lab",run="run-0"} 10.0' in text


def test_metrics_of_evaluations_have_groups_and_no_steps(bob, run, finish):
    evaluation, _ = start_evaluation(run.weight_versions.get(), Questions(taskset="sort"))
    finish(evaluation)
    text = scraped(bob)
    assert 'rftweb_runs{state="running"} 1.0' in text
    told = {
        line.partition("{")[0] for line in text.splitlines() if f'run="{evaluation.slug}"' in line
    }
    assert "rftweb_run_groups_opened_total" in told
    assert not told & {
        "rftweb_run_steps_total",
        "rftweb_run_planned_steps",
        "rftweb_run_weight_version",
    }


def test_metrics_hide_projects_that_the_user_cannot_see(carol, run):
    text = scraped(carol)
    assert "run-0" not in text
    assert 'rftweb_runs{state="running"} 0.0' in text


def test_metrics_show_workers_only_to_staff(admin, bob):
    Worker.objects.create(key="explorer@here:1:2", role="explorer", host="here", pid=1)
    assert (
        'rftweb_worker_heartbeat_timestamp_seconds{role="explorer",worker="explorer@here:1:2"}'
        in scraped(admin)
    )
    assert "explorer@here" not in scraped(bob)


def test_prometheus_parser_reads_the_metrics(admin, run, finish):
    finish(run)
    names = {family.name for family in text_string_to_metric_families(scraped(admin))}
    assert {
        "rftweb_runs",
        "rftweb_run_steps",
        "rftweb_groups",
        "rftweb_experiences",
        "rftweb_redis_up",
        "rftweb_sockets",
    } <= names


def test_metrics_show_the_newest_step_metrics_only_to_users_who_judge_openly(alice, bob, run):
    Metric.record(run, 1, {"reward_mean": 0.25})
    Metric.record(run, 2, {"reward_mean": 0.5, "staleness": 1.0, "a_scorers_own": 1.0})
    Run.objects.filter(pk=run.pk).update(step=2)
    text = scraped(alice)
    assert 'rftweb_run_metric{name="reward_mean",project="lab",run="run-0"} 0.5' in text
    assert 'rftweb_run_metric{name="staleness",project="lab",run="run-0"} 1.0' in text
    assert "a_scorers_own" not in text and "rftweb_run_metric{" not in scraped(bob)


def test_metrics_show_the_newest_evaluation_only_to_users_who_judge_openly(
    alice, bob, run, finish, monkeypatch
):
    publish(run, 1, 2)
    evaluated(run, 0, finish, 4)
    asked = evaluated(run, 1, finish, 3).evaluation_set
    where = f'project="lab",question_set="{asked}",run="run-0",taskset="sort"'
    text = scraped(alice)
    assert f"rftweb_run_evaluated_version{{{where}}} 1.0" in text
    told = [line for line in text.splitlines() if line.startswith("rftweb_run_evaluation{")]
    assert len(told) == 2 and all(line.endswith(" 0.75") and 'measure="' in line for line in told)
    assert "rftweb_run_evaluation{" not in scraped(
        bob
    ) and "rftweb_run_evaluated_version{" not in scraped(bob)
    monkeypatch.setattr("rftweb.metrics.runs.EVALUATIONS", 1)
    newest = evaluated(run, 2, finish, 1, samples=3).evaluation_set
    told = [
        line
        for line in scraped(alice).splitlines()
        if line.startswith("rftweb_run_evaluated_version{")
    ]
    assert len(told) == 1 and newest in told[0]


def test_metrics_show_the_age_of_the_oldest_group_in_each_state(alice, run, finish):
    [group] = finish(run)
    Group.objects.filter(pk=group.pk).update(opened_at=timezone.now() - timedelta(seconds=500))
    [line] = [
        line
        for line in scraped(alice).splitlines()
        if line.startswith("rftweb_oldest_group_age_seconds{")
    ]
    assert 'state="scoring"' in line and 500 <= float(line.split()[-1]) < 700


def test_metrics_count_recent_ratings_by_kind_of_rater(alice, bob, run, finish):
    [group] = finish(run)
    rollout = group.rollouts.first()
    for minutes in (1, 30):
        said = Rating.objects.create(
            run=run,
            rollout=rollout,
            rater=bob,
            form="stars",
            answer={"stars": 3},
            client_uuid=uuid.uuid4(),
        )
        Rating.objects.filter(pk=said.pk).update(at=timezone.now() - timedelta(minutes=minutes))
    text = scraped(alice)
    # The rating with the highest id is the older one: clocks may jump, so the search goes on.
    assert 'rftweb_run_recent_ratings{by="people",project="lab",run="run-0"} 1.0' in text
    assert 'rftweb_run_recent_ratings{by="simulated",project="lab",run="run-0"} 0.0' in text


def test_silent_worker_is_not_counted_as_alive_and_disappears_after_a_day(admin):
    now = timezone.now()
    for name, role, silent_s in (
        ("a", "trainer", 1),
        ("b", "trainer", 3600),
        ("c", "trainer", 100_000),
        ("d", "beat", 1),
    ):
        worker = Worker.every.create(key=name, role=role, host="here", pid=1)
        Worker.every.filter(pk=worker.pk).update(heartbeat_at=now - timedelta(seconds=silent_s))
    text = scraped(admin)
    assert (
        'rftweb_workers{role="trainer"} 1.0' in text and 'rftweb_workers{role="scorer"} 0.0' in text
    )
    assert 'rftweb_workers{role="beat"} 1.0' in text and 'rftweb_workers{role="web"} 0.0' in text
    assert [name for name in "abcd" if f'worker="{name}"' in text] == ["a", "b", "d"]


def test_metrics_time_responses_by_view_name_for_staff_only(admin, bob):
    Client().get("/healthz?token=secret")
    Client().get("/zanzibar/by/sea")
    text = scraped(admin)
    assert 'rftweb_http_seconds_count{method="GET",process="' in text and 'view="healthz"' in text
    assert 'status="4xx",view="none"' in text and "secret" not in text and "zanzibar" not in text
    assert "rftweb_http_seconds" not in scraped(bob)


def test_repeated_metrics_requests_are_answered_from_the_cache(settings, bob, run):
    settings.METRICS_SECONDS = 60
    first = scraped(bob)
    run.pause()
    assert first == scraped(bob) and 'rftweb_runs{state="running"} 1.0' in first
    settings.METRICS_SECONDS = 0
    assert 'rftweb_runs{state="paused"} 1.0' in scraped(bob)


def test_metrics_lines_and_queries_do_not_grow_with_rows(alice, run, finish):
    finish(run, groups=1)
    with CaptureQueriesContext(connection) as few:
        before = scraped(alice)
    finish(run, groups=2)
    with CaptureQueriesContext(connection) as many:
        after = scraped(alice)
    assert len(few) == len(many) and before.count("\n") == after.count("\n")


def test_metrics_count_only_open_alerts_that_the_user_may_see(alice, bob, run):
    for rule in ("no_progress", "suspected"):
        Alert.objects.create(
            run=run, rule=rule, words="it holds", todo="look", since=timezone.now()
        )
    assert 'rftweb_open_alerts{project="lab",rule="suspected",run="run-0"} 1.0' in scraped(alice)
    heard = scraped(bob)
    assert 'rule="suspected"' not in heard and 'rule="no_progress"' in heard
