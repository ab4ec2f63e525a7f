"""The check of live runs opens an alert once, updates and closes it, and pauses the run if
configured; two checks at once do no harm.
"""

import threading

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.alerts import evaluating
from apps.alerts.evaluating import LOCK, look_at_runs
from apps.alerts.models import Alert, AlertEntry, Channel, Delivery
from apps.alerts.rules import RULES
from apps.environments.models import Environment
from apps.feedback.models import Calibration, Suspicion
from apps.runs.models import Run, after
from apps.runs.parsing import parse_config
from tests.alerts.conftest import go_on, measure, stall


def rules(run: Run) -> list[str]:
    return list(Alert.objects.open().filter(run=run).order_by("pk").values_list("rule", flat=True))


def test_healthy_run_has_no_alerts(healthy):
    assert look_at_runs() == {} and rules(healthy) == []


def test_alert_opens_once_and_its_text_is_updated(stalled):
    assert look_at_runs() == {"opened": 1}
    first = Alert.objects.get(run=stalled)
    assert first.rule == "no_progress" and "No step for 2 h" in first.words
    Run.objects.filter(pk=stalled.pk).update(waiting_on="2 more groups")
    assert look_at_runs() == {}
    again = Alert.objects.get(run=stalled)
    assert (again.pk, again.since) == (
        first.pk,
        first.since,
    ) and "waits for 2 more groups" in again.words


def test_alert_closes_when_its_condition_ends_and_keeps_its_history(stalled):
    look_at_runs()
    go_on(stalled)
    assert look_at_runs() == {"closed": 1}
    alert = Alert.objects.get(run=stalled)
    assert alert.closed_at and alert.closed_for == "the condition no longer holds"
    assert [entry.what for entry in alert.entries.all()] == ["opened", "closed"]
    kinds = stalled.topic.events.filter(kind__startswith="alert").values_list("kind", flat=True)
    assert list(kinds) == ["alert_opened", "alert_closed"]


def test_condition_that_returns_opens_a_new_alert(stalled):
    look_at_runs()
    go_on(stalled)
    look_at_runs()
    Run.objects.filter(pk=stalled.pk).update(trained_at=None)
    look_at_runs()
    assert Alert.objects.filter(run=stalled, rule="no_progress").count() == 2


def test_rule_pauses_the_run_once_for_each_alert(healthy):
    healthy.change_config(None, alerts={"kl": {"pause": True, "steps": 1}})
    measure(healthy, "kl", 5.0)
    go_on(healthy)
    assert look_at_runs() == {"opened": 1, "paused": 1}
    healthy.refresh_from_db()
    assert healthy.state == Run.State.PAUSED and healthy.state_reason.startswith(
        "KL too large: The policy is 5 nats"
    )
    healthy.resume()
    assert look_at_runs() == {}
    healthy.refresh_from_db()
    assert healthy.is_live and [entry.what for entry in Alert.objects.get().entries.all()] == [
        "opened",
        "paused",
    ]


def test_behaviour_gap_is_compared_with_the_runs_first_updates(healthy):
    healthy.change_config(None, alerts={"behaviour_gap": {"baseline_steps": 4, "steps": 2}})
    measure(healthy, "behaviour_gap", *[0.02] * 4, *[0.2] * 2)
    go_on(healthy)
    assert look_at_runs() == {"opened": 1} and rules(healthy) == ["behaviour_gap"]
    measure(healthy, "behaviour_gap", *[0.02] * 2)
    assert look_at_runs() == {"closed": 1}


def test_manual_pause_closes_an_alert_that_applies_only_to_live_runs(stalled):
    look_at_runs()
    stalled.pause()
    assert look_at_runs() == {"closed": 1}
    assert Alert.objects.get().closed_for == "the run is paused"


def test_paused_run_keeps_the_alert_that_paused_it(stalled):
    stalled.change_config(None, alerts={"no_progress": {"pause": True}})
    look_at_runs()
    assert look_at_runs() == {} and rules(stalled) == ["no_progress"]


def test_alerts_close_when_the_run_ends(stalled):
    look_at_runs()
    stalled.stop()
    look_at_runs()
    assert Alert.objects.get().closed_for == "the run has ended"


def test_disabling_a_rule_closes_its_alert(stalled):
    look_at_runs()
    stalled.change_config(None, alerts={"no_progress": None})
    look_at_runs()
    assert Alert.objects.get().closed_for == "the rule is off"


def test_scorers_below_threshold_and_suspicions_open_alerts(healthy):
    Calibration.objects.create(
        run=healthy,
        scorer="sort",
        metrics={},
        last_rating=0,
        alarm="accuracy 0.40, target 0.80",
    )
    Calibration.objects.update(alarmed_at=healthy.started_at)
    Suspicion.objects.create(
        run=healthy, kind="divergence", words="They part.", first_step=1, last_step=2
    )
    Suspicion.objects.create(
        run=healthy, kind="length", words="Longer and longer.", first_step=1, last_step=2
    )
    look_at_runs()
    found = set(Alert.objects.values_list("rule", "key"))
    assert found == {("agreement", "sort"), ("agreement", "divergence"), ("suspected", "length")}
    Suspicion.objects.filter(kind="length").update(state=Suspicion.State.DISMISSED)
    look_at_runs()
    assert rules(healthy) == ["agreement", "agreement"]


def test_alert_stores_when_its_condition_last_held(healthy):
    measure(healthy, "kl", 5.0, 5.0, 5.0)
    go_on(healthy)
    look_at_runs()
    Alert.objects.update(seen_at=healthy.created_at)
    look_at_runs()
    assert Alert.objects.get().seen_at > healthy.created_at


def test_rule_that_raises_does_not_stop_other_rules_and_runs(stalled, new_run, monkeypatch):
    other = stall(new_run(alerts={"disk": None, "unacknowledged": None}))
    look_at_runs()
    kept = Alert.objects.get(run=stalled)

    def broken(facts, limit, is_open):
        raise ZeroDivisionError("no metric to divide by")

    monkeypatch.setitem(RULES, "no_progress", broken)
    measure(stalled, "kl", 5.0, 5.0, 5.0)
    measure(other, "kl", 5.0, 5.0, 5.0)
    look_at_runs()
    assert rules(stalled) == rules(other) == ["no_progress", "kl"]
    kept.refresh_from_db()
    assert kept.closed_at is None


def test_error_in_one_run_does_not_stop_the_check_of_others(stalled, new_run, monkeypatch):
    other = stall(new_run(alerts={"disk": None, "unacknowledged": None}))
    _settle = evaluating._settle

    def settle(run, *known):
        return {}[run.slug] if run == stalled else _settle(run, *known)

    monkeypatch.setattr(evaluating, "_settle", settle)
    assert look_at_runs() == {"opened": 1}
    assert rules(other) == ["no_progress"]


def test_failing_environment_has_one_alert_until_it_succeeds(healthy):
    maze = Environment.objects.create(
        project=healthy.project, name="maze", kind="http", failures=6, open_reason="it is away"
    )
    plan = parse_config({**healthy.config, "environment": {"name": "maze"}})
    Run.objects.filter(pk=healthy.pk).update(config=plan.model_dump(mode="json"))
    for rest in (60, -60, 60):  # the breaker is open, retried, and open again
        Environment.objects.filter(pk=maze.pk).update(open_until=after(rest))
        look_at_runs()
    assert rules(healthy) == ["breaker"]
    assert AlertEntry.objects.count() == 1
    Environment.objects.filter(pk=maze.pk).update(open_until=None, failures=0)
    look_at_runs()
    assert rules(healthy) == []


def test_opening_and_closing_are_queued_for_each_enabled_channel(stalled, alice):
    on, off = (
        Channel.make(stalled.project, "webhook", f"https://example.org/{n}", alice) for n in (1, 2)
    )
    Channel.objects.filter(pk=off.pk).update(is_on=False)
    look_at_runs()
    go_on(stalled)
    look_at_runs()
    assert list(Delivery.objects.order_by("pk").values_list("channel", "kind")) == [
        (on.pk, "alert.opened"),
        (on.pk, "alert.closed"),
    ]


@pytest.mark.django_db(transaction=True)
def test_concurrent_second_check_does_nothing(stalled):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, 0)", [LOCK])
    said = []

    def other() -> None:
        said.append(look_at_runs())
        connection.close()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(120)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s, 0)", [LOCK])
    assert said == [{}] and not Alert.objects.exists()
    assert look_at_runs() == {"opened": 1}


def test_number_of_queries_does_not_grow_with_runs(healthy, new_run):
    with CaptureQueriesContext(connection) as few:
        look_at_runs()
    for _ in range(20):
        new_run(alerts={"disk": None, "unacknowledged": None})
    with CaptureQueriesContext(connection) as many:
        look_at_runs()
    assert len(many) == len(few)


def test_run_with_an_unreadable_configuration_does_not_stop_the_check_of_others(stalled, new_run):
    other = stall(new_run(alerts={"disk": None, "unacknowledged": None}))
    Run.objects.filter(pk=stalled.pk).update(config={"steps": "many"})
    look_at_runs()
    assert (rules(stalled), rules(other)) == ([], ["no_progress"])


def test_acknowledgement_is_recorded_with_user_and_duration_and_expires(stalled, alice):
    look_at_runs()
    alert = Alert.objects.get()
    alert.acknowledge(alice, 1)
    assert not Alert.objects.unacknowledged().exists() and Alert.objects.open().exists()
    assert alert.entries.filter(
        what=AlertEntry.What.ACKNOWLEDGED, by=alice, words="for 1 h"
    ).exists()
    Alert.objects.update(acknowledged_until=alert.opened_at)
    assert Alert.objects.unacknowledged().exists()
