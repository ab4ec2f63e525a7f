"""An explorer's seconds go to the runs that have something in flight, and are told as sums."""

from apps.runs.costs import cost_of
from apps.runs.models import Usage
from workers.explorer.meter import Meter


def test_seconds_are_shared_by_those_in_flight_and_the_gpus_by_those_at_work(new_run):
    one, other = new_run(), new_run()
    clock = iter([0.0, 10.0, 20.0])
    meter = Meter("explorer@lab:1:1", on_gpu=True, wall=lambda: next(clock), processor=iter([0.0, 4.0, 8.0]).__next__)
    meter.turn({one.pk: True, other.pk: False})
    meter.turn({one.pk: True, other.pk: True})
    for _ in range(2):
        meter.put()
    costs = cost_of([one, other])
    assert [round(costs[run.pk].gpu_hours * 3600, 6) for run in (one, other)] == [15.0, 5.0]
    assert [round(costs[run.pk].cpu_hours * 3600, 6) for run in (one, other)] == [4.0, 4.0]


def test_without_a_gpu_its_seconds_are_none(run):
    meter = Meter("explorer@lab:1:1", on_gpu=False, processor=iter([0.0, 1.0]).__next__)
    meter.turn({run.pk: True})
    meter.put()
    assert list(Usage.objects.values_list("kind", "amount")) == [("explorer.cpu_s", 1.0)]


def test_time_with_nothing_in_flight_is_nobodys(run):
    meter = Meter("explorer@lab:1:1", on_gpu=False, processor=iter([0.0, 5.0, 6.0]).__next__)
    meter.turn({})
    meter.turn({run.pk: True})
    meter.put()
    assert Usage.objects.get().amount == 1.0
