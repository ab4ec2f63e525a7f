"""Which of the ready groups an update takes first, by the run's `reading.order`."""

import pytest

from apps.buffer.models import Experience, batch_of, plan_step
from apps.buffer.reading import Ready, in_order
from apps.rewards.models import LATE, Reward
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.reading import Fifo, Freshest, Priority

WIDE, NARROW = (0.0, 1.0), (0.5, 1.0)


@pytest.fixture
def reading(new_run):
    """A run that reads in this order, two groups to an update, with its trainer at version 2."""

    def make(order: object, **changes: object) -> Run:
        run = new_run(**{"reading": {"order": order}, "groups_per_step": 2, "max_staleness": 9, **changes})
        Run.objects.filter(pk=run.pk).update(step=2, published_version=2)
        assert run.claim_trainer("t", 60)
        return run

    return make


def taken(run: Run) -> list[int]:
    """The draws of the groups in the run's next update."""
    return list(dict.fromkeys(experience.group.draw_index for experience in batch_of(plan_step(run, run.fence))))


def by_person(group: Group, **changes: object) -> Reward:
    rollout = group.rollouts.first()
    return Reward.objects.create(**{"rollout": rollout, "source": "human", "scorer": "stars", "value": 1.0, **changes})


def test_without_the_key_groups_come_as_they_were_drawn(reading, judged):
    run = reading("fifo")
    assert run.settings.reading.order == Fifo()
    judged(run, WIDE, version=0)
    judged(run, WIDE, WIDE, version=2)
    assert taken(run) == [0, 1]


def test_the_freshest_come_first_and_of_those_the_first_drawn(reading, judged):
    run = reading("freshest")
    judged(run, WIDE, version=1)
    judged(run, WIDE, WIDE, WIDE, version=2)
    assert taken(run) == [1, 2]


def test_a_group_is_as_old_as_its_oldest_answer(reading, judged):
    run = reading("freshest")
    mixed, *_ = judged(run, WIDE, WIDE, WIDE, version=2)
    Experience.objects.filter(pk=mixed.experiences.first().pk).update(weight_version=1)
    assert taken(run) == [1, 2]


def test_what_is_left_grows_stale_as_ever(reading, judged, trained):
    run = reading("freshest", max_staleness=1)
    (old,) = judged(run, WIDE, version=1)
    judged(run, WIDE, WIDE, version=2)
    trained(run)
    assert plan_step(run, run.fence) is None
    assert set(old.experiences.values_list("state", "reason")) == {("dropped", "stale: older than version 2")}


def test_by_priority_what_people_judged_comes_first_then_the_widest_spread(reading, judged):
    run = reading("priority")
    *_, rated = judged(run, NARROW, WIDE, NARROW, version=2)
    by_person(rated)
    assert taken(run) == [1, 2]


@pytest.mark.parametrize("late", [{"is_current": False}, {"value": None, "reason": "taken back"}, {"details": {LATE: True}}])
def test_a_word_that_does_not_count_gives_no_priority(reading, judged, late):
    run = reading("priority")
    *_, rated = judged(run, NARROW, NARROW, NARROW, version=2)
    by_person(rated, **late)
    assert taken(run) == [0, 1]


def test_age_and_spread_are_weighed_as_the_run_says():
    groups = [Ready(1, 0, 0, WIDE), Ready(2, 1, 5, NARROW), Ready(3, 2, 5, NARROW, is_rated=True)]
    assert in_order(groups, Priority(people=0, spread=1, age=0), 5) == [1, 2, 3]
    assert in_order(groups, Priority(people=0, spread=1, age=1), 5) == [2, 3, 1]
    assert in_order(groups, Priority(people=1, spread=0, age=0), 5) == [3, 1, 2]


@pytest.mark.parametrize("rule", [Fifo(), Freshest(), Priority()])
def test_groups_that_are_alike_keep_the_order_of_their_draws(rule):
    groups = [Ready(group, draw, 3, WIDE) for group, draw in [(7, 2), (8, 0), (9, 1)]]
    assert in_order(groups, rule, 3) == [8, 9, 7]
