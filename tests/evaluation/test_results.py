"""Results of an evaluation, computed from its rows: rewarded, unrewarded and failed samples
separately, by domain and difficulty.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.evaluation.asking import start_evaluation
from apps.evaluation.models import EvaluationResult
from apps.evaluation.results import comparable, keep_results, summed_up
from apps.evaluation.so_far import load_results_so_far
from apps.pipelines.refining import refine
from apps.rewards.models import Reward
from apps.rollouts.evaluation_groups import complete_measured
from apps.rollouts.models import Group, Rollout
from apps.runs.evaluation import Questions
from apps.runs.models import Run
from apps.tasksets.scales import find_scale

pytestmark = pytest.mark.django_db
REWARDS = {
    0: (1.0, 1.0),
    1: (1.0, 0.0),
    2: (0.0, None),
}  # of the samples to each task; None: the scorer failed


@pytest.fixture
def evaluation(run, finish):
    """Evaluate four tasks with two answers each: all right, half right, only one reward, and a
    dropped group.
    """
    made, _ = start_evaluation(
        run.weight_versions.get(version=0), Questions(taskset="sort", samples=2)
    )
    groups = finish(made, ["#### 1", "#### 2"], groups=4)
    for group in groups[:3]:
        for rollout in group.rollouts.all():
            value = REWARDS[group.task.index][rollout.sample_index]
            Reward.record(
                rollout,
                Reward.Source.RULE,
                "sort",
                value,
                reason="" if value is not None else "it broke",
            )
    Group.objects.filter(run=made).update(state="judged")
    held = Group.objects.claim("judged", "refiner", 60, 10)
    held[3].drop("failed 3 times: the engine died", failed=True)
    refine(held[:3])
    complete_measured()
    made.refresh_from_db()
    return made


def test_unrewarded_and_failed_samples_are_counted_separately_and_not_as_wrong(
    evaluation,
):
    found = summed_up(evaluation)
    assert (found.tasks, found.closed, found.dropped, found.samples) == (4, 4, 1, 8)
    assert (found.judged, found.unjudged, found.failed) == (5, 1, 2)
    assert (
        found.at("pass", 1).value == pytest.approx((1 + 0.5 + 0) / 3)
        and found.at("pass", 1).tasks == 3
    )
    assert found.at("pass", 2).value == 1.0 and found.at("pass", 2).tasks == 2
    assert found.at("worst", 2).value == pytest.approx(0.5)
    assert found.at("mean", 1).low < found.at("mean", 1).value < found.at("mean", 1).high
    assert found.judges["sort"] == [pytest.approx(0.5), 3]


def test_the_hardest_tasks_come_first(evaluation):
    assert [
        (one["index"], one["right"], one["judged"]) for one in summed_up(evaluation).hardest
    ] == [
        (2, 0, 1),
        (1, 1, 2),
        (0, 2, 2),
    ]


def test_completed_evaluation_is_summarized_once(evaluation):
    assert (keep_results(), keep_results()) == (1, 0)
    kept = EvaluationResult.objects.get()
    Rollout.objects.filter(run=evaluation).delete()
    assert load_results_so_far(evaluation).metrics.judged == kept.metrics["judged"] == 5


def test_stored_metric_is_the_mean_of_the_stored_task_metrics(evaluation):
    keep_results()
    kept = EvaluationResult.objects.get()
    index = dict(evaluation.taskset.tasks.values_list("pk", "index"))
    assert [index[task] for task in kept.by_task["tasks"]] == [
        0,
        1,
        2,
    ]  # the dropped one has no metric
    assert kept.by_task["metrics"]["pass"] == {"1": [1.0, 0.5, 0.0], "2": [1.0, 1.0, None]}
    for measure, of_k in kept.by_task["metrics"].items():
        for k, values in of_k.items():
            known = [value for value in values if value is not None]
            assert sum(known) / len(known) == pytest.approx(
                kept.metrics["metrics"][measure][k][0], abs=1e-6
            )


def test_each_domain_and_difficulty_band_has_its_own_metrics(evaluation, taskset, monkeypatch):
    monkeypatch.setattr("apps.evaluation.results.BANDS", 1)
    for task in taskset.tasks.all():
        task.domain = "even" if task.index % 2 == 0 else "odd"
        task.meta = {"digits": 5 + task.index}
        task.save()
    find_scale(taskset, "digits")
    found = summed_up(evaluation)
    assert (
        found.domains["even"]["pass"]["1"][0] == 0.5 and found.domains["odd"]["pass"]["1"][0] == 0.5
    )
    assert found.domains["odd"]["pass"]["1"][3] == 1
    (band,) = found.scales["digits"]
    assert (band["from"], band["to"], band["metrics"]["pass"]["1"][3]) == (5.0, 7.0, 3)


def test_majority_is_reported_only_when_final_answers_can_be_equal(evaluation):
    assert "maj" not in summed_up(evaluation).metrics  # 1 and 2, at every task
    Rollout.objects.filter(run=evaluation).update(text="So it is \\boxed{ 7 }.")
    assert summed_up(evaluation).at("maj", 1).tasks == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [("#### 1,200", "The answer is 1200."), ("\\boxed{ A }", "<answer>a</answer>")],
)
def test_equivalent_answers_compare_equal(one, other):
    assert comparable(one) == comparable(other) != ""


def test_long_text_without_an_answer_has_nothing_to_compare():
    assert comparable("word " * 200) == comparable("") == ""


def test_broken_evaluation_does_not_stop_the_summary_of_others(evaluation, run):
    broken, _ = start_evaluation(
        run.weight_versions.get(version=0), Questions(taskset="sort", samples=3)
    )
    broken.complete()
    Run.objects.filter(pk=broken.pk).update(config={"policy": 3})
    assert keep_results() == 1
    assert EvaluationResult.objects.get().run == evaluation


def statements(run) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert load_results_so_far(run).metrics.judged == 5
    return len(captured)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_results_of_an_incomplete_evaluation_are_cached(evaluation, state):
    Run.objects.filter(pk=evaluation.pk).update(state=state)
    evaluation.refresh_from_db()
    first = statements(evaluation)
    Rollout.objects.filter(run=evaluation).update(text="changed")
    with CaptureQueriesContext(connection) as captured:
        assert load_results_so_far(evaluation).closed == 4
    assert len(captured) < first and not any("rollouts_rollout" in one["sql"] for one in captured)
