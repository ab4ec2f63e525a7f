"""A scorer below its owner's threshold raises an alert on the run, which ends when the scorer is
above it again.
"""

import pytest
from django.db.models import F
from django.db.models.functions import Now

from apps.feedback.calibration.making import write_calibrations
from apps.feedback.calibration.watching import (
    PAUSE,
    list_current_alarms,
    list_runs_due_for_calibration,
    under,
    update_calibrations,
    watch_alarms,
)
from apps.feedback.models import Calibration
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.scorer_choice import Trust
from tests.feedback.calibration.judging import both_judge
from workers.coordinator import summarize

pytestmark = pytest.mark.django_db
RIGHT = [(1.0, 5), (0.0, 1)]
WRONG = [(1.0, 1), (0.0, 5)]


@pytest.fixture
def trusting(new_run):
    """Return a function that creates a run whose scorer must reach 0.8; keywords are further fields
    of `trust`.
    """
    return lambda **more: new_run(rewards=[{"scorer": "sort", "trust": {"accuracy": 0.8, **more}}])


def judged(run, bob, pairs):
    both_judge(run, bob, pairs)
    write_calibrations(run)
    watch_alarms()
    run.refresh_from_db()
    return list_current_alarms(run)


def kinds(run):
    return [
        event.kind
        for event in run.topic.events.order_by("sequence")
        if event.kind.startswith("scorer_")
    ]


def test_scorer_below_its_threshold_raises_an_alarm_with_the_reason(trusting, bob):
    run = trusting()
    [alarm] = judged(run, bob, [*RIGHT * 6, *WRONG * 6])
    assert alarm.alarm == "accuracy 0.50 (0.31 to 0.69), target 0.80"
    event = run.topic.events.get(kind="scorer_alarmed")
    assert event.payload["reason"].startswith("Scorer sort misses its target: accuracy 0.50")
    assert run.is_live


def test_alarm_ends_when_the_scorer_is_above_its_threshold_again(trusting, bob):
    run = trusting()
    judged(run, bob, [*RIGHT * 6, *WRONG * 6])
    assert judged(run, bob, RIGHT * 40) == []
    assert kinds(run) == ["scorer_alarmed", "scorer_recovered"]


def test_repeated_alarm_is_announced_once_and_its_metrics_are_updated(trusting, bob):
    run = trusting()
    judged(run, bob, WRONG * 10)
    [alarm] = judged(run, bob, [*RIGHT * 5, *WRONG * 5])
    assert alarm.alarm.startswith("accuracy 0.25") and kinds(run) == ["scorer_alarmed"]


def test_too_few_labels_raise_no_alarm(trusting, bob):
    run = trusting(min_labels=20)
    assert judged(run, bob, [*WRONG * 9, (1.0, 1)]) == []
    assert len(judged(run, bob, [(0.0, 5)])) == 1


def test_scorer_without_a_threshold_raises_no_alarm(run, bob):
    assert judged(run, bob, WRONG * 20) == []


def test_changed_or_removed_threshold_applies_without_a_new_label(trusting, bob):
    run = trusting()
    judged(run, bob, WRONG * 10)
    run.change_config(None, rewards=[{"scorer": "sort", "trust": None}])
    watch_alarms()
    assert list_current_alarms(run) == []
    run.change_config(None, rewards=[{"scorer": "sort", "trust": {"kappa": 0.6}}])
    watch_alarms()
    assert list_current_alarms(run)[0].alarm.startswith("kappa -1.00")


def test_alarm_pauses_the_run_once_when_configured(trusting, bob):
    run = trusting(pause=True)
    judged(run, bob, WRONG * 10)
    assert run.state == Run.State.PAUSED and "Scorer sort misses its target" in run.state_reason
    run.resume()
    judged(run, bob, WRONG)
    assert run.is_live, "a resumed run is not paused again by the same alarm"
    judged(run, bob, RIGHT * 90)
    judged(run, bob, WRONG * 200)
    assert run.state == Run.State.PAUSED, "an alarm that ended and came back pauses again"


def test_alarm_that_may_be_chance_does_not_pause_the_run(trusting, bob):
    run = trusting(pause=True)
    assert len(judged(run, bob, [*RIGHT * 8, *WRONG * 3])) == 1
    assert run.is_live


def test_alarm_can_be_raised_for_a_single_domain(trusting, bob):
    run = trusting()
    task = run.taskset.tasks.get(index=0)
    type(task).objects.filter(pk=task.pk).update(domain="math")
    # Two replies per task, in task order: those of the first task are wrong.
    alarms = judged(run, bob, [*WRONG, *RIGHT * 3] * 10)
    assert [alarm.domain for alarm in alarms] == [None, "math"]
    told = {
        event.payload["domain"]: event.payload["reason"]
        for event in run.topic.events.filter(kind="scorer_alarmed")
    }
    assert "on tasks of domain math" in told["math"]


@pytest.mark.parametrize("field", ["accuracy", "kappa", "order"])
def test_threshold_applies_to_each_metric(field):
    metrics = {
        "labels": 50,
        **{
            name: {"value": 0.5, "low": 0.4, "high": 0.6} for name in ("accuracy", "kappa", "order")
        },
    }
    assert under(metrics, Trust(**{field: 0.7})).endswith("0.50 (0.40 to 0.60), target 0.70")
    assert under(metrics, Trust(**{field: 0.5})) == ""
    assert (
        under({**metrics, field: {"value": None, "low": None, "high": None}}, Trust(**{field: 0.7}))
        == ""
    )


@pytest.mark.parametrize(
    ("trust", "field", "words"),
    [
        ({"accuracy": 1.2}, "rewards.0.trust.accuracy", "less than or equal to 1"),
        ({"acuracy": 0.8}, "rewards.0.trust.acuracy", "did you mean `accuracy`"),
        (
            {"kappa": 0.6, "min_labels": 3},
            "rewards.0.trust.min_labels",
            "greater than or equal to 10",
        ),
        ({"min_labels": 30}, "rewards.0.trust", "name at least one minimum"),
    ],
)
def test_invalid_threshold_is_rejected_by_field(plan, trust, field, words):
    with pytest.raises(ConfigError) as error:
        plan(rewards=[{"scorer": "sort", "trust": trust}])
    assert words in error.value.problems[field]


def test_calibration_is_updated_after_new_ratings_and_a_pause(run, bob):
    both_judge(run, bob, RIGHT * 6)
    summarize()
    assert Calibration.objects.get().metrics["labels"] == 12
    assert update_calibrations() == 0
    both_judge(run, bob, RIGHT)
    assert not list_runs_due_for_calibration().exists(), "the calibration is recent"
    Calibration.objects.update(made_at=Now() - 2 * PAUSE)
    assert update_calibrations() == 1
    assert Calibration.objects.get().metrics["labels"] == 14
    Calibration.objects.update(made_at=F("made_at") - 2 * PAUSE)
    assert not list_runs_due_for_calibration().exists(), "there are no new ratings"


def test_run_without_scorers_is_not_calibrated(new_run, bob):
    run = new_run(rewards=[], people={"per_group": 2, "at_deadline": "drop"})
    both_judge(run, bob, RIGHT)
    assert not list_runs_due_for_calibration().exists()
