"""Evaluations of runs and versions side by side: only with equal settings, by task, and hidden from
blind raters.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Project
from apps.dashboard.comparing_evaluations import of_runs, of_versions
from apps.dashboard.comparing_runs import same_tasks
from apps.dashboard.evaluations import EvaluationQuery
from apps.evaluation.asking import start_evaluation
from apps.evaluation.models import EvaluationResult
from apps.runs.evaluation import Questions
from apps.runs.models import Run
from apps.tasksets.models import Taskset
from tests.dashboard.evaluating import evaluated, publish

pytestmark = pytest.mark.django_db
PASS = EvaluationQuery("pass", 1)


@pytest.fixture
def two(new_run, alice, bob, carol) -> list[Run]:
    """Create two runs with versions 0 to 2 each."""
    runs = [new_run(), new_run(seed=4)]
    for run in runs:
        publish(run, 1, 2)
    return runs


def page(client, query: str = "", runs: str = "lab/run-0,lab/run-1") -> str:
    answer = client.get(f"{reverse('compare')}?runs={runs}{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_each_run_is_shown_with_its_newest_and_best_version(client, two, alice, finish):
    for number, right in ((1, 3), (2, 2)):
        evaluated(two[0], number, finish, right)
    evaluated(two[1], 1, finish, 1)
    (asked,) = of_runs(two, PASS).question_sets
    assert [(line.newest.number, line.best.number) for line in asked.lines] == [(2, 1), (1, 1)]
    client.force_login(alice)
    text = page(client)
    assert "75.0 %" in text and "50.0 %" in text and "25.0 %" in text
    assert (
        "−25.0" in text
        and "−50.0" in page(client, "&of=best")
        and "0.0" in page(client, "&measure=best&k=2")
    )


def test_difference_is_computed_per_task_and_not_from_the_means(two, finish):
    """Both solve half of the tasks, but not the same ones."""
    evaluated(two[0], 1, finish, [0, 1])
    evaluated(two[1], 1, finish, [1, 2])
    (asked,) = of_runs(two, PASS).question_sets
    base, line = asked.lines
    assert base.is_base and base.difference is None and asked.base == two[0]
    assert (
        line.difference.value,
        line.difference.better,
        line.difference.worse,
        line.difference.same,
    ) == (0.0, 1, 1, 2)


def test_evaluations_with_different_settings_are_not_compared(two, finish):
    evaluated(two[0], 1, finish, 3)
    evaluated(two[1], 1, finish, 1, samples=3)
    found = of_runs(two, PASS)
    assert [[line.newest is not None for line in one.lines] for one in found.question_sets] == [
        [False, True],
        [True, False],
    ]
    assert found.ks == [1, 2, 3] and all(
        line.difference is None for one in found.question_sets for line in one.lines
    )


def test_tasksets_with_one_name_in_two_projects_are_kept_apart(two, finish, taskset):
    elsewhere = Project.objects.create(slug="elsewhere", title="Elsewhere")
    Taskset.objects.create(
        project=elsewhere,
        slug=taskset.slug,
        title="Another",
        source="sort",
        seed=1,
        size=4,
        digest="0" * 64,
    )
    one, other = (evaluated(run, 1, finish, 2) for run in two)
    assert one.evaluation_set == other.evaluation_set and len(of_runs(two, PASS).question_sets) == 1
    Run.objects.filter(pk=other.pk).update(taskset=elsewhere.tasksets.get())
    assert len(of_runs(two, PASS).question_sets) == 2


def test_evaluation_among_the_runs_is_compared_as_itself(two, finish):
    made = [evaluated(run, 1, finish, right) for run, right in zip(two, (1, 3), strict=True)]
    (asked,) = of_runs(made, PASS).question_sets
    assert [line.newest.cell.run for line in asked.lines] == [one.pk for one in made]
    assert asked.lines[1].difference.value == 0.5


def test_running_evaluation_shows_its_progress_and_complete_ones_are_preferred(
    client, two, alice, finish
):
    evaluated(two[0], 1, finish, 3)
    for run in two:
        start_evaluation(run.weight_versions.get(version=2), Questions(taskset="sort", samples=2))
    (asked,) = of_runs(two, PASS).question_sets
    assert (asked.lines[0].newest.number, asked.lines[1].newest.number, asked.lines[1].best) == (
        1,
        2,
        None,
    )
    client.force_login(alice)
    assert "0/4</span> tasks" in page(client)


def test_difference_is_unknown_without_results_per_task(client, two, alice, finish):
    for run in two:
        evaluated(run, 1, finish, 2)
    EvaluationResult.objects.filter(run__evaluates__run=two[1]).update(by_task=None)
    client.force_login(alice)
    assert "no results per task" in page(client) and "not significant" not in page(client)


def test_seeds_are_compared_by_their_evaluations(client, new_run, alice, finish):
    sides = [[new_run(seed=n, max_staleness=late) for n in (1, 2)] for late in (0, 1)]
    for runs, rights in zip(sides, ((4, 3), (1, 0)), strict=True):
        for run, right in zip(runs, rights, strict=True):
            publish(run, 1)
            evaluated(run, 1, finish, right)
    client.force_login(alice)
    asked = ",".join(f"lab/{run.slug}" for runs in sides for run in runs)
    answer = client.get(f"{reverse('compare')}?runs={asked}&metric=evaluations")
    [chance] = answer.context["chances"]
    [found] = chance.versus
    assert (found.one.values, found.other.values, found.step) == (
        (1.0, 0.75),
        (0.25, 0.0),
        None,
    ) and found.welch is not None
    assert (
        "at step" not in answer.content.decode()
        and "newest versions above" in answer.content.decode()
    )


def test_replies_to_common_evaluation_tasks_are_shown_side_by_side(two, alice, bob, finish):
    for run in two:
        evaluated(run, 2, finish, 2)
    found = same_tasks(two, alice)
    assert len(found) == 4
    for _, answers in found:
        assert [(answer.version, answer.is_of_evaluation) for answer in answers] == [(2, True)] * 2
        assert [answer.rollout.run.evaluates.run for answer in answers] == two
    assert {answer.reward for _, answers in same_tasks(two, bob) for answer in answers} == {None}
    assert {answer.version for _, answers in same_tasks(two, bob) for answer in answers} == {None}


def test_chosen_metric_is_kept_in_the_form_and_invalid_values_are_no_error(
    client, two, alice, finish
):
    for run in two:
        evaluated(run, 1, finish, 2)
    client.force_login(alice)
    text = page(client, "&measure=worst&k=2&of=best")
    assert (
        text.count('name="measure" value="worst"') == 2
        and '<option value="best" selected>best versions' in text
    )
    for nonsense in ("&measure=x&k=y", "&k=0", f"&k={10**30}", "&measure=none"):
        page(client, nonsense)
    assert client.get(f"{reverse('compare')}?runs=lab/run-0&of=moon").status_code == 404


def test_runs_without_evaluations_get_advice(client, two, alice):
    client.force_login(alice)
    text = page(client)
    assert (
        "No evaluations yet" in text and reverse("run-evaluations", args=["lab", "run-0"]) in text
    )


def test_blind_rater_sees_no_evaluation_results(client, two, bob, finish):
    for run, right in zip(two, (3, 1), strict=True):
        evaluated(run, 1, finish, right)
    client.force_login(bob)
    text = page(client)
    assert (
        "rated blind" in text
        and "whisker" not in text
        and "75.0" not in text
        and "−50.0" not in text
    )
    Run.objects.filter(pk=two[0].pk).update(
        config={**two[0].config, "people": {**two[0].config.get("people", {}), "blind": False}}
    )
    text = page(client)
    assert (
        "75.0 %" in text and "25.0 %" not in text and "−50.0" not in text
    )  # the other stays hidden, and so does the difference


def test_number_of_queries_does_not_grow_with_evaluations(client, two, alice, finish):
    client.force_login(alice)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client)
        return len(captured)

    for run in two:
        evaluated(run, 1, finish, 2)
    start_evaluation(two[0].weight_versions.get(version=0), Questions(taskset="sort", samples=2))
    few = queries()
    publish(two[0], *range(3, 9))
    for version in two[0].weight_versions.all():
        start_evaluation(version, Questions(taskset="sort", samples=2))
    assert queries() <= few


def test_run_with_many_evaluations_does_not_hide_the_other(two, finish, monkeypatch):
    monkeypatch.setattr("apps.dashboard.comparing_evaluations.EACH", 1)
    evaluated(two[0], 1, finish, 2)
    for number in (1, 2):
        evaluated(two[1], number, finish, 3)
    (asked,) = of_runs(two, PASS).question_sets
    assert [line.newest.number for line in asked.lines] == [1, 2]


# -- two versions of a run


def versions(client, one: int, other: int, query: str = "") -> str:
    answer = client.get(
        f"{reverse('run-weights-compare', args=['lab', 'run-0'])}?one={one}&other={other}{query}"
    )
    assert answer.status_code == 200
    return answer.content.decode()


def test_two_versions_are_shown_side_by_side_with_their_difference(client, two, alice, finish):
    made = [evaluated(two[0], number, finish, right) for number, right in ((0, 1), (2, [1, 2, 3]))]
    client.force_login(alice)
    text = versions(client, 0, 2)
    assert (
        "25.0 %" in text and "75.0 %" in text and "+50.0" in text and "not significant" in text
    )  # of four tasks
    assert all(reverse("run-evaluations", args=["lab", one.slug]) in text for one in made)
    assert "−50.0" in versions(client, 2, 0) and "−50.0" in versions(
        client, 2, 0, "&measure=mean&k=2"
    )
    (asked,) = of_versions([one.evaluates for one in made], PASS).question_sets
    assert (asked.lines[1].difference.better, asked.lines[1].difference.worse) == (3, 1)


def test_version_without_an_evaluation_is_not_shown_as_zero(client, two, alice, finish):
    evaluated(two[0], 2, finish, 3)
    client.force_login(alice)
    text = versions(client, 0, 2)
    rows = text.split('class="evaluation-comparison"')[1].split("</table>")[0]
    assert "not evaluated" in rows and "75.0 %" in rows and "significant" not in rows


def test_versions_without_an_evaluation_get_advice(client, two, alice):
    client.force_login(alice)
    text = versions(client, 0, 2)
    assert (
        "No evaluation of these versions yet" in text
        and reverse("run-evaluations", args=["lab", "run-0"]) + "#ask" in text
    )


def test_number_of_queries_does_not_grow_with_evaluations_of_two_versions(
    client, two, alice, finish
):
    client.force_login(alice)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            versions(client, 1, 2)
        return len(captured)

    for number in (1, 2):
        evaluated(two[0], number, finish, 2)
    start_evaluation(two[0].weight_versions.get(version=1), Questions(taskset="sort", samples=3))
    few = queries()
    for number in (1, 2):
        for samples in (4, 5, 6):
            start_evaluation(
                two[0].weight_versions.get(version=number),
                Questions(taskset="sort", samples=samples),
            )
    assert queries() <= few
