"""An explorer's seconds are charged to runs with rollouts in flight, and stored as sums."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.alerts.ledger import sampled_tokens_are_counted
from apps.rollouts.models import Group
from apps.runs.costs import load_costs
from apps.runs.models import Usage
from workers.explorer.usage_meter import UsageMeter


def test_cpu_time_is_shared_by_runs_in_flight_and_gpu_time_by_busy_runs(new_run):
    one = new_run()
    other = new_run()
    clock = iter([0.0, 10.0, 20.0])
    meter = UsageMeter(
        "explorer@lab:1:1",
        on_gpu=True,
        wall=lambda: next(clock),
        processor=iter([0.0, 4.0, 8.0]).__next__,
    )
    meter.record({one.pk: True, other.pk: False})
    meter.record({one.pk: True, other.pk: True})
    for _ in range(2):
        meter.save()
    costs = load_costs([one, other])
    assert [round(costs[run.pk].gpu_hours * 3600, 6) for run in (one, other)] == [15.0, 5.0]
    assert [round(costs[run.pk].cpu_hours * 3600, 6) for run in (one, other)] == [4.0, 4.0]


def test_without_a_gpu_only_cpu_seconds_are_recorded(run):
    meter = UsageMeter("explorer@lab:1:1", on_gpu=False, processor=iter([0.0, 1.0]).__next__)
    meter.record({run.pk: True})
    meter.save()
    assert list(Usage.objects.values_list("kind", "amount")) == [("explorer.cpu_s", 1.0)]


def test_idle_time_is_not_charged_to_any_run(run):
    meter = UsageMeter("explorer@lab:1:1", on_gpu=False, processor=iter([0.0, 5.0, 6.0]).__next__)
    meter.record({})
    meter.record({run.pk: True})
    meter.save()
    assert Usage.objects.get().amount == 1.0


def test_usage_of_an_hour_stays_when_the_clock_steps_back_into_it(run):
    hour = datetime(2026, 1, 2, 3, tzinfo=UTC)
    second = timedelta(seconds=1)
    clock = iter([hour - second, hour + second, hour - second])
    meter = UsageMeter(
        "explorer@lab:1:1",
        on_gpu=False,
        processor=iter([0.0, 100.0, 101.0, 102.0]).__next__,
        clock=lambda: next(clock),
    )
    for _ in range(3):
        meter.record({run.pk: True})
        meter.save()
    assert sum(Usage.objects.values_list("amount", flat=True)) == 102.0


@pytest.mark.django_db(transaction=True)
def test_working_explorer_records_sampled_tokens_and_cpu_time(new_run, tiny_policy, stage):
    run = new_run(sampling={"max_tokens": 8}, engine="transformers")

    def is_done() -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=run, state="scoring").exists()

    stage.eventually(is_done, 300)
    stage.explorer.meter.save()
    used = dict(Usage.objects.filter(run=run).values_list("kind", "amount"))
    assert used["tokens.sampled"] > 0 and used["explorer.cpu_s"] > 0
    assert set(Usage.objects.values_list("worker", flat=True)) == {stage.explorer.worker.key}
    assert list(sampled_tokens_are_counted()) == []
