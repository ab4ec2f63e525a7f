"""The metrics that a step records about groups, people, and the stage the trainer waited for."""

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
from apps.runs.models import Run, TrainStep
from tests.workers.trainer.feeding import feed
from workers.trainer import metrics
from workers.trainer.run_trainer import ExperienceRunTrainer

SOURCES = ("reward_rule", "reward_model", "reward_environment", "reward_machine")


@pytest.fixture
def fed(run) -> Run:
    feed(run, groups=2)
    Run.objects.filter(pk=run.pk).update(started_at=Now() - timedelta(minutes=1))
    run.refresh_from_db()
    return run


def of_time(run: Run) -> dict[str, float]:
    batch = list(Experience.objects.filter(run=run).select_related("rollout"))
    return metrics.of_time(
        run,
        batch,
        seconds=2.0,
        waited=0.5,
        since=Group.objects.filter(run=run).order_by("pk").first().pk,
    )


def test_group_with_equal_rewards_is_dead(fed):
    assert of_time(fed)["dead_groups"] == 0
    first = Group.objects.filter(run=fed).order_by("pk").first()
    Reward.objects.filter(rollout__group=first).update(value=0.25)
    assert of_time(fed)["dead_groups"] == 0.5


def test_a_scorer_that_does_not_count_keeps_no_group_alive(fed):
    for rollout in Rollout.objects.filter(run=fed):
        Reward.objects.create(
            rollout=rollout,
            source=Reward.Source.RULE,
            scorer="format",
            value=rollout.sample_index / 10,
        )
    Reward.objects.filter(rollout__run=fed).exclude(scorer="format").update(value=0.25)
    assert of_time(fed)["dead_groups"] == 1


def test_groups_that_were_dropped_before_the_batch_began_are_counted(run):
    """With one group per step and no staleness, the update takes the group that follows the dead
    ones.
    """
    since = metrics.first_open(run)
    feed(run, groups=3)
    Run.objects.filter(pk=run.pk).update(started_at=Now() - timedelta(minutes=1))
    run.refresh_from_db()
    *dead, trained = Group.objects.filter(run=run).order_by("pk")
    Reward.objects.filter(rollout__group__in=dead).update(value=0.25)
    Group.objects.filter(pk__in=[group.pk for group in dead]).update(
        state="dropped", reason="all alike"
    )
    Experience.objects.filter(group__in=dead).delete()
    batch = list(Experience.objects.filter(group=trained).select_related("rollout"))
    said = metrics.of_time(run, batch, seconds=2.0, waited=0.5, since=since)
    tokens = sum(Rollout.objects.filter(run=run).values_list("completion_tokens", flat=True))
    assert said["dead_groups"] == pytest.approx(2 / 3)
    assert (said["judged_per_s"], said["refined_per_s"], said["explore_tokens_per_s"]) == (
        1.5,
        1.5,
        tokens / 2,
    )


def test_first_open_is_the_oldest_open_group_or_else_the_newest_group(run):
    feed(run, groups=2)
    newest = Group.objects.filter(run=run).order_by("-pk").first()
    assert metrics.first_open(run) == newest.pk
    opened = Group.open(run, "explorer", 60, 2, 0)
    assert metrics.first_open(run) == opened[0].pk


def test_a_repeated_commit_counts_the_groups_of_the_first_attempt(fed):
    trainer = ExperienceRunTrainer(fed, fence=0)
    batch = list(Experience.objects.filter(run=fed).select_related("rollout"))
    step = TrainStep(run=fed, number=1, version=0)

    first, again = (trainer._metrics(fed, step, batch, 2.0) for _ in range(2))

    assert first["judged_per_s"] == again["judged_per_s"] > 0


def test_machine_rewards_are_reported_by_source_with_their_weights(run):
    """Scorers of weight 0 and predictions of a rater model do not count as machine rewards."""
    feed(run, groups=2)
    Reward.objects.filter(rollout__run=run).update(scorer="math", source="rule", value=0.8)
    for rollout in Rollout.objects.filter(run=run):
        for scorer, source, value in (
            ("length", "rule", -0.5),
            ("judge", "model", 0.2),
            ("format", "rule", 1.0),
        ):
            Reward.objects.create(rollout=rollout, source=source, scorer=scorer, value=value)
        Reward.objects.create(rollout=rollout, source="model", scorer="rater_model", value=0.9)
    weights = {"math": 1.0, "length": 0.1, "judge": 0.5, "format": 0.0}
    config = run.config | {
        "rewards": [{"scorer": name, "weight": weight} for name, weight in weights.items()]
    }
    Run.objects.filter(pk=run.pk).update(config=config)
    run.refresh_from_db()
    batch = list(Experience.objects.filter(run=run).select_related("rollout"))
    said = metrics.compute_batch_metrics(run, TrainStep(run=run, number=1, version=0), batch)
    assert {name: pytest.approx(value) for name, value in said.items() if name in SOURCES} == {
        "reward_rule": 0.75,
        "reward_model": 0.1,
        "reward_machine": 0.85,
    }


def test_trained_tokens_per_second_count_the_batch(fed):
    tokens = sum(Rollout.objects.filter(run=fed).values_list("completion_tokens", flat=True))
    assert of_time(fed)["train_tokens_per_s"] == tokens / 2.0


def test_recent_ratings_are_reported_per_hour(fed, bob):
    Run.objects.filter(pk=fed.pk).update(
        config=fed.config | {"people": fed.config["people"] | {"per_group": 1}}
    )
    fed.refresh_from_db()
    for number, rollout in enumerate(Rollout.objects.filter(run=fed)[:4]):
        at = Now() - timedelta(minutes=5 if number else 30)
        Rating.objects.create(
            run=fed,
            rollout=rollout,
            rater=bob,
            form="stars",
            answer={"stars": 3},
            client_uuid=uuid.uuid4(),
            at=at,
        )
    assert metrics.of_people(fed) == {"people_per_h": 18, "simulated_per_h": 0}


@pytest.mark.parametrize(
    ("states", "stage"),
    [
        (["waiting", "sampling"], "people"),
        (["scoring", "judged", "sampling"], "judging"),
        (["sampling"], "sampling"),
        ([], "sampling"),
    ],
)
def test_trainer_waits_for_the_stage_where_the_groups_are(run, states, stage):
    for group, state in zip(
        Group.open(run, "explorer", 60, len(states), 0) if states else [], states, strict=True
    ):
        Group.objects.filter(pk=group.pk).update(state=state)
    assert metrics.starving(run) == stage


def test_waiting_time_is_charged_to_the_stage_that_was_awaited(monkeypatch):
    trainer = ExperienceRunTrainer.__new__(ExperienceRunTrainer)
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    trainer.run = SimpleNamespace(is_live=True)
    trainer.idle = True
    trainer.idle_since = 100.0
    trainer.waited = 0.0
    trainer.starved = dict.fromkeys(metrics.STAGES, 0.0)
    trainer.looked_at = 100.0
    trainer.awaited = "people"
    now[0] = 103.0
    trainer._note_wait()
    assert (trainer.waited, trainer.idle, trainer.starved) == (
        3.0,
        False,
        {"people": 3.0, "judging": 0.0, "sampling": 0.0},
    )
