"""What load balancers and Prometheus are told."""

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from apps.accounts.models import Token
from apps.runs.models import Worker
from apps.streaming import bells

NOBODY_LISTENS = "redis://127.0.0.1:1/0"


@pytest.fixture
def redis_away(settings):
    settings.REDIS_URL = NOBODY_LISTENS
    bells.connection.cache_clear()
    yield
    bells.connection.cache_clear()


def scraped(user, *scopes: str) -> str:
    _, secret = Token.issue(user, "prometheus", list(scopes) or [Token.Scope.READ])
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {secret}"})
    return answer.content.decode() if answer.status_code == 200 else str(answer.status_code)


def test_the_process_is_healthy_without_any_service(redis_away):
    assert Client().get("/healthz").json() == {"process": "ok"}


def test_it_is_ready_while_postgres_answers(db):
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"postgres": "ok", "redis": "ok"})


def test_without_redis_it_is_still_ready_and_says_so(db, redis_away):
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"postgres": "ok", "redis": "away"})


def test_without_postgres_it_is_not_ready(db):
    def refuse(*statement):
        raise DatabaseError("connection refused")

    with connection.execute_wrapper(refuse):
        answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["postgres"]) == (503, "away")


def test_health_is_asked_by_reading_only(client):
    assert client.post("/healthz").status_code == 405


def test_nobody_unknown_reads_metrics(db):
    assert Client().get("/metrics").status_code == 401


def test_a_token_without_the_scope_reads_no_metrics(bob):
    assert scraped(bob, Token.Scope.RATE) == "403"


def test_metrics_show_where_each_run_stands(bob, run, finish):
    finish(run)
    text = scraped(bob)
    assert 'rftweb_runs{state="running"} 1.0' in text
    assert 'rftweb_run_groups_opened_total{project="lab",run="run-0"} 1.0' in text
    assert 'rftweb_groups{project="lab",run="run-0",state="scoring"} 1.0' in text
    assert 'rftweb_run_planned_steps{project="lab",run="run-0"} 10.0' in text


def test_metrics_show_nothing_of_other_peoples_projects(carol, run):
    text = scraped(carol)
    assert "run-0" not in text
    assert 'rftweb_runs{state="running"} 0.0' in text


def test_workers_are_shown_to_staff_alone(admin, bob):
    Worker.objects.create(key="explorer@here:1:2", role="explorer", host="here", pid=1)
    assert 'rftweb_worker_heartbeat_timestamp_seconds{role="explorer",worker="explorer@here:1:2"}' in scraped(admin)
    assert "explorer@here" not in scraped(bob)


def test_every_line_of_the_metrics_can_be_read_back(admin, run, finish):
    finish(run)
    names = {family.name for family in text_string_to_metric_families(scraped(admin))}
    assert {"rftweb_runs", "rftweb_run_steps", "rftweb_groups", "rftweb_experiences", "rftweb_redis_up", "rftweb_sockets"} <= names
