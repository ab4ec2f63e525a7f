"""Curves read from spans equal a summary of all their points, for any window and any order of
recording.
"""

import math
import random
import threading

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from apps.dashboard.reconciliation import reconcile
from apps.runs.downsampling import thinned
from apps.runs.models import Metric, MetricSpan, Run, metric_names
from apps.runs.spans_ledger import metric_spans_match_their_points
from tests.profiles import tries

STEPS = 1_200
HUGE = 1.7e308  # the sum of two overflows


def at_step(run: Run, step: int) -> Run:
    Run.objects.filter(pk=run.pk).update(step=step, planned_steps=10_000)
    run.refresh_from_db()
    return run


def values_of(steps: int) -> dict[str, dict[int, float]]:
    """Return three metrics: a complete one, one with gaps, one that begins late."""
    draw = random.Random(3)
    return {
        "whole": {step: draw.gauss(0, 1) for step in range(1, steps + 1)},
        "gappy": {step: draw.gauss(5, 1) for step in range(1, steps + 1) if draw.random() < 0.2},
        "late": {step: HUGE * draw.choice([-1, 1]) for step in range(steps // 2, steps + 1)},
    }


def obvious(values: dict[int, float], since: int, until: int, wide: int) -> dict[int, tuple]:
    buckets: dict[int, list[float]] = {}
    for step, value in values.items():
        if since < step <= until:
            buckets.setdefault(min(((step - 1) // wide + 1) * wide, until), []).append(value)
    return {
        end: (len(told), math.fsum(v / len(told) for v in told), min(told), max(told))
        for end, told in buckets.items()
    }


@pytest.fixture
def measured(run) -> Run:
    Metric.objects.bulk_create(
        Metric(run=run, step=step, name=name, value=value)
        for name, points in values_of(STEPS).items()
        for step, value in points.items()
    )
    at_step(run, STEPS)
    MetricSpan.fill(run)
    return run


@settings(
    max_examples=tries(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(
    since=some.integers(0, STEPS), length=some.integers(1, STEPS + 50), points=some.integers(1, 500)
)
def test_window_summarizes_exactly_its_points(measured, since, length, points):
    values = values_of(STEPS)
    found = thinned(measured, list(values), since, since + length, points)
    assert found.since <= since and found.until == min(since + length, STEPS)
    assert len(found.steps) <= points + 1
    for name in values:
        expected = obvious(values[name], found.since, found.until, found.wide)
        buckets = found.series.get(name, {})
        assert {end: (b.count, b.low, b.high) for end, b in buckets.items()} == {
            end: (count, low, high) for end, (count, _, low, high) in expected.items()
        }
        for end, (_, mean, *_) in expected.items():
            assert math.isclose(
                buckets[end].mean,
                mean,
                rel_tol=1e-9,
                abs_tol=1e-9 * abs(HUGE) if name == "late" else 1e-9,
            )


def test_recording_step_by_step_creates_the_same_spans_as_filling(run):
    at_step(run, 0)
    values = values_of(130)
    for step in range(1, 131):
        Metric.record(
            run, step, {name: points[step] for name, points in values.items() if step in points}
        )
    written = set(MetricSpan.objects.values_list("name", "level", "first", "count", "low", "high"))
    MetricSpan.objects.all().delete()
    MetricSpan.fill(at_step(run, 130))
    assert written == set(
        MetricSpan.objects.values_list("name", "level", "first", "count", "low", "high")
    )
    assert ("whole", 2, 65, 64) in {row[:4] for row in written} and ("whole", 2, 129) not in {
        row[:3] for row in written
    }


def test_recording_a_step_again_changes_nothing(run):
    at_step(run, 0)
    for step in (*range(1, 9), 3, 8):
        Metric.record(run, step, {"kl": float(step)})
    assert MetricSpan.objects.values_list("count", "mean", "low", "high").get() == (
        8,
        4.5,
        1.0,
        8.0,
    )


def test_late_value_is_added_to_spans_written_before(run):
    at_step(run, 64)
    for step in range(1, 65):
        Metric.record(run, step, {"kl": 0.0})
    Metric.record(run, 5, {"judged": 7.0})
    assert list(
        MetricSpan.objects.filter(name="judged")
        .order_by("level")
        .values_list("level", "first", "high")
    ) == [
        (1, 1, 7.0),
        (2, 1, 7.0),
    ]
    assert list(metric_spans_match_their_points()) == []


@pytest.mark.django_db(transaction=True)
def test_concurrent_late_value_and_end_of_its_span_lose_nothing(run):
    at_step(run, 7)
    for step in range(1, 8):
        Metric.record(run, step, {"kl": 1.0})
    ended = threading.Event()

    def end_the_span() -> None:
        Metric.record(run, 8, {"kl": 1.0})
        connection.close()
        ended.set()

    other = threading.Thread(target=end_the_span)
    with transaction.atomic():
        Metric.record(run, 3, {"judged": 9.0})
        other.start()
        assert not ended.wait(0.2)  # it is blocked by this transaction
    other.join(timeout=30)
    at_step(run, 8)
    assert MetricSpan.objects.filter(name="judged", high=9.0).count() == 1
    assert list(metric_spans_match_their_points()) == []


@pytest.mark.parametrize("wrong", [{"high": 99.0}, {"mean": 0.5}, {"count": 7}, None])
def test_reconcile_reports_a_missing_or_wrong_span(run, wrong):
    at_step(run, 8)
    for step in range(1, 9):
        Metric.record(run, step, {"kl": 1.0})
    assert reconcile()["metric spans match their points"] == []
    MetricSpan.objects.update(**wrong) if wrong else MetricSpan.objects.all().delete()
    assert len(reconcile()["metric spans match their points"]) == 1


def test_metric_names_of_a_run_are_sorted(run):
    Metric.record(run, 1, {"b": 1.0, "a": 1.0})
    Metric.record(run, 2, {"c": 1.0, "a": float("nan")})
    assert metric_names(run) == ["a", "b", "c"]
