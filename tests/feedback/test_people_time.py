"""People's time is the time that their ratings took, counted once, without simulated raters."""

import uuid

from apps.accounts.models import User
from apps.feedback.models import Rating
from apps.feedback.people_time import count_time
from apps.rollouts.models import Rollout
from apps.runs.costs import load_costs
from apps.runs.models import Usage


def decided(run, rater, seconds) -> None:
    Rating.objects.create(
        run=run,
        rollout=Rollout.objects.filter(run=run).first(),
        rater=rater,
        form="stars",
        answer={"stars": 3},
        client_uuid=uuid.uuid4(),
        seconds=seconds,
        is_current=False,
    )


def test_seconds_of_people_are_counted_once_including_later_ratings(run, finish, bob):
    finish(run)
    robot = User.objects.create(username="robot", is_simulated=True)
    for seconds in (30.0, 6.0, None):
        decided(run, bob, seconds)
    decided(run, robot, 1_000.0)
    for _ in range(2):
        assert count_time() == 1
    assert round(load_costs([run])[run.pk].people_hours * 3600) == 36
    decided(run, bob, 4.0)
    count_time()
    assert round(load_costs([run])[run.pk].people_hours * 3600) == 40


def test_run_without_rating_time_is_counted_only_once(run, finish, bob):
    finish(run)
    decided(run, bob, None)
    Rating.objects.update(at="2026-01-01T10:20Z")
    assert (count_time(), count_time()) == (1, 0)
    assert Usage.objects.get(kind="people.s").amount == 0
