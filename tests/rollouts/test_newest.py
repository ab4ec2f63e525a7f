"""The newest rollouts of runs that sampled alternately."""

import pytest

from apps.rollouts.models import Group, Rollout


@pytest.fixture
def runs(new_run):
    """Create two runs that alternate in writing rollouts, and a third without rollouts."""
    found = [new_run() for _ in range(3)]
    for n in range(4):
        for run in found[:2]:
            group = Group.objects.create(
                run=run, task=run.taskset.tasks.first(), draw_index=n, size=1, opened_version=0
            )
            Rollout.objects.create(run=run, group=group, sample_index=0)
    return found


def newest_first(runs) -> list[int]:
    return list(Rollout.objects.filter(run__in=runs).order_by("-pk").values_list("pk", flat=True))


@pytest.mark.parametrize("count", [1, 5, 100])
def test_newest_of_several_runs_are_the_newest_of_all_their_rollouts(runs, count):
    assert Rollout.objects.newest_of_each(runs, count) == newest_first(runs)[:count]
    assert Rollout.objects.newest_of_each(runs[1:], count) == newest_first(runs[1:])[:count]
    assert Rollout.objects.newest_of_each([], count) == []


def test_newest_rollouts_of_a_run_are_its_own(runs):
    assert list(Rollout.objects.newest_of(runs[0]).values_list("pk", flat=True)) == newest_first(
        runs[:1]
    )
