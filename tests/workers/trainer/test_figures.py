"""What a step records of its groups, of people, and of whom the trainer waited for."""

import time
import uuid
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db.models.functions import Now

from apps.buffer.models import Experience
from apps.feedback.models import Rating
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.workers.trainer.feeding import feed
from workers.trainer import figures
from workers.trainer.desk import Desk


@pytest.fixture
def fed(run) -> Run:
    feed(run, groups=2)
    Run.objects.filter(pk=run.pk).update(started_at=Now() - timedelta(minutes=1))
    run.refresh_from_db()
    return run


def of_time(run: Run) -> dict[str, float]:
    batch = list(Experience.objects.filter(run=run).select_related("rollout"))
    return figures.of_time(run, batch, seconds=2.0, waited=0.5)


def test_a_group_that_was_rewarded_alike_is_dead(fed):
    assert of_time(fed)["dead_groups"] == 0
    first = Group.objects.filter(run=fed).order_by("pk").first()
    Reward.objects.filter(rollout__group=first).update(value=0.25)
    assert of_time(fed)["dead_groups"] == 0.5


def test_a_scorer_that_does_not_count_keeps_no_group_alive(fed):
    for rollout in Rollout.objects.filter(run=fed):
        Reward.objects.create(rollout=rollout, source=Reward.Source.RULE, scorer="format", value=rollout.sample_index / 10)
    Reward.objects.filter(rollout__run=fed).exclude(scorer="format").update(value=0.25)
    assert of_time(fed)["dead_groups"] == 1


def test_trained_tokens_are_those_of_the_batch(fed):
    tokens = sum(Rollout.objects.filter(run=fed).values_list("completion_tokens", flat=True))
    assert of_time(fed)["train_tokens_per_s"] == tokens / 2.0


def test_decisions_of_the_last_minutes_are_told_by_the_hour(fed, bob):
    Run.objects.filter(pk=fed.pk).update(config=fed.config | {"people": fed.config["people"] | {"per_group": 1}})
    fed.refresh_from_db()
    for number, rollout in enumerate(Rollout.objects.filter(run=fed)[:4]):
        at = Now() - timedelta(minutes=5 if number else 30)
        Rating.objects.create(
            run=fed, rollout=rollout, rater=bob, form="stars", answer={"stars": 3}, client_uuid=uuid.uuid4(), at=at
        )
    assert figures.of_people(fed) == {"people_per_h": 18, "simulated_per_h": 0}


@pytest.mark.parametrize(
    ("states", "station"),
    [
        (["waiting", "sampling"], "people"),
        (["scoring", "judged", "sampling"], "judging"),
        (["sampling"], "sampling"),
        ([], "sampling"),
    ],
)
def test_the_trainer_starves_of_the_station_where_groups_stand(run, states, station):
    for group, state in zip(Group.open(run, "explorer", 60, len(states), 0) if states else [], states, strict=True):
        Group.objects.filter(pk=group.pk).update(state=state)
    assert figures.starving(run) == station


def test_time_is_put_down_to_the_station_that_was_waited_for(monkeypatch):
    desk, now = Desk.__new__(Desk), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    desk.run, desk.idle, desk.idle_since, desk.waited = SimpleNamespace(is_live=True), True, 100.0, 0.0
    desk.starved, desk.looked_at, desk.awaited = dict.fromkeys(figures.STATIONS, 0.0), 100.0, "people"
    now[0] = 103.0
    desk._note_wait()
    assert (desk.waited, desk.idle, desk.starved) == (3.0, False, {"people": 3.0, "judging": 0.0, "sampling": 0.0})
