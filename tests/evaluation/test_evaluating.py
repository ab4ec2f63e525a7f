"""A version is evaluated once per configuration, on request or by its run's schedule; rewarded
groups are closed without training.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.buffer.models import Experience
from apps.dashboard.reconciliation import reconcile
from apps.dashboard.reconciliation.groups import group_ledger
from apps.evaluation.asking import start_evaluation
from apps.evaluation.scheduled import evaluate_due_versions, keep_up_all
from apps.pipelines.refining import refine
from apps.rewards.scoring import open_questions, record_verdicts
from apps.rollouts.evaluation_groups import complete_measured
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group
from apps.runs.config import ConfigError
from apps.runs.evaluation import Questions
from apps.runs.models import Run, WeightVersion
from workers.coordinator import summarize, sweep_leases
from workers.scorer_dispatch import answer_questions

pytestmark = pytest.mark.django_db
ASKED = Questions(taskset="sort", samples=3)


def published(run: Run, *versions: int) -> None:
    for number in versions:
        fields = {
            "step": 2 * number,
            "folder": f"/weights/{number}",
            "fingerprint": f"{number:016}",
        }
        version = WeightVersion.objects.create(run=run, version=number, **fields)
        version.verify()
        version.publish()
    run.refresh_from_db()


def version(run: Run, number: int = 0) -> WeightVersion:
    return run.weight_versions.get(version=number)


def judged(groups: list[Group]) -> list[Group]:
    """Score the groups and claim them as a refiner."""
    held = Group.objects.claim("scoring", "scorer", 60, len(groups))
    record_verdicts(held, answer_questions(held, open_questions(held)))
    return Group.objects.claim("judged", "refiner", 60, len(groups))


def test_evaluation_inherits_the_runs_settings_except_the_given_ones(new_run):
    judge = {"scorer": "sort", "weight": 2, "trust": {"kappa": 0.5}}
    run = new_run(sampling={"max_tokens": 40, "temperature": 0.7}, rewards=[judge])
    made, is_new = start_evaluation(
        version(run), Questions(taskset="sort", samples=3, temperature=0.2, tasks=2)
    )
    plan = made.settings
    assert (is_new, made.state, made.tasks_asked, plan.group_size) == (True, "running", 2, 3)
    assert (plan.sampling.max_tokens, plan.sampling.temperature) == (40, 0.2)
    assert [(one.scorer, one.weight, one.trust) for one in plan.rewards] == [("sort", 2, None)]
    assert run.topic.events.last().payload["evaluation"] == made.slug


def test_same_evaluation_is_created_once_and_a_forced_repeat_gets_another_seed(run):
    first, _ = start_evaluation(version(run), ASKED)
    assert start_evaluation(version(run), ASKED) == (first, False)
    second, is_new = start_evaluation(version(run), ASKED, force=True)
    assert is_new and second.evaluation_set == first.evaluation_set
    assert second.settings.seed != first.settings.seed


def test_stopped_evaluation_can_be_started_again(run):
    first, _ = start_evaluation(version(run), ASKED)
    first.stop()
    assert start_evaluation(version(run), ASKED)[1]


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"taskset": "nothing"}, "taskset"), ({"rewards": [{"scorer": "who"}]}, "rewards.0.scorer")],
)
def test_invalid_evaluation_is_rejected_by_field_and_creates_no_run(run, asked, field):
    with pytest.raises(ConfigError) as refused:
        start_evaluation(version(run), Questions(**{"taskset": "sort", **asked}))
    assert field in refused.value.problems and Run.objects.count() == 1


def test_evaluation_samples_every_task_once_trains_nothing_and_completes(run, finish):
    made, _ = start_evaluation(version(run), ASKED)
    groups = finish(made, ["12345", "nonsense"], groups=10)
    assert [group.task.index for group in groups] == [0, 1, 2, 3]
    held = judged(groups)
    held[0].drop("failed 3 times: the engine died", failed=True)
    assert finish(made, groups=10) == []
    refine(held[1:3])
    assert complete_measured() == 0
    refine(held[3:])
    assert complete_measured() == 1 and complete_measured() == 0
    made.refresh_from_db()
    assert (made.state, made.step, Experience.objects.count(), LeftOut.objects.count()) == (
        "completed",
        0,
        0,
        0,
    )
    assert {name: count for name, count in group_ledger(made).items() if count} == {
        "issued": 4,
        "measured": 3,
        "dropped": 1,
    }
    found = {name for name, sentences in reconcile().items() if sentences}
    assert found <= {"engines served what was published"}  # there was none here


def test_paused_evaluation_completes_after_it_is_resumed(run, finish):
    made, _ = start_evaluation(version(run), ASKED)
    held = judged(finish(made, groups=4))
    made.pause()
    refine(held)
    sweep_leases()
    made.refresh_from_db()
    assert made.state == "paused"
    made.resume()
    sweep_leases()
    made.refresh_from_db()
    assert made.state == "completed"


def test_people_can_rate_an_evaluation(new_run):
    run = new_run(rewards=[], people={"per_group": 2, "at_deadline": "drop", "deadline_s": 30})
    with pytest.raises(ConfigError, match="the run has no scorers"):
        start_evaluation(version(run), ASKED)
    people = start_evaluation(version(run), Questions(taskset="sort", samples=3, people=2))[
        0
    ].settings.people
    assert (people.per_group, people.deadline_s, people.at_deadline) == (2, 30, "drop")


def test_schedule_creates_each_due_evaluation_once(new_run):
    run = new_run(
        evaluations=[
            {"taskset": "sort", "every": 2},
            {"taskset": "sort", "every": 5, "unit": "steps", "samples": 2},
        ]
    )
    published(run, 1, 2, 3)  # after updates 2, 4 and 6
    assert evaluate_due_versions(run) == 4
    assert evaluate_due_versions(run) == keep_up_all() == 0
    made = Run.objects.filter(is_evaluation=True).values_list(
        "config__group_size", "evaluates__version"
    )
    assert sorted(made) == [(2, 0), (2, 3), (4, 0), (4, 2)]


def test_schedule_skips_stopped_evaluations_and_retired_versions(new_run):
    run = new_run(evaluations=[{"taskset": "sort"}])
    evaluate_due_versions(run)
    Run.objects.get(is_evaluation=True).stop()
    published(run, 1, 2)
    run.weight_versions.filter(version=1).update(state="retired")
    summarize()
    assert set(
        Run.objects.filter(is_evaluation=True).values_list("evaluates__version", flat=True)
    ) == {0, 2}


def test_schedule_with_a_missing_taskset_does_not_block_others(new_run, taskset):
    run = new_run(evaluations=[{"taskset": "gone"}, {"taskset": "sort"}])
    assert evaluate_due_versions(run) == 1


def test_schedule_evaluates_only_due_stored_versions_and_then_needs_one_query(new_run):
    run = new_run(evaluations=[{"taskset": "sort", "every": 3, "unit": "steps"}])
    published(run, *range(1, 9))
    run.weight_versions.filter(version__in=(2, 4, 5)).update(state="retired")
    assert (
        evaluate_due_versions(run) == 4
    )  # after steps 0, 6, 12 and 16: versions of steps 4 and 10 are retired, others are not due
    asked = Run.objects.filter(is_evaluation=True).values_list("evaluates__version", flat=True)
    assert sorted(asked) == [0, 3, 6, 8]
    with CaptureQueriesContext(connection) as captured:
        evaluate_due_versions(run)
    assert len(captured) == 1 and "NOT EXISTS" in captured[0]["sql"]
