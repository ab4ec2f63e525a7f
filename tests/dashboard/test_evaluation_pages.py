"""Evaluations in the pages: a table of versions, asking more of them, schedules, and what one evaluation found."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.feedback.evaluation.asking import evaluate
from apps.rollouts.models import Rollout
from apps.runs.evaluation import Asked
from apps.runs.models import Run
from tests.dashboard.evaluating import complete, publish

pytestmark = pytest.mark.django_db
ASKED = {"taskset": "sort", "samples": "2"}


@pytest.fixture
def published(run, alice, bob, carol):
    """Versions 0 to 2."""
    publish(run, 1, 2)
    return run


def address(run: Run, name: str = "run-evaluations") -> str:
    return reverse(name, args=["lab", run.slug])


def shown(client, run: Run, query: str = "") -> str:
    return client.get(address(run) + query).content.decode()


def test_versions_stand_beside_each_other_with_their_figures(client, published, alice, finish):
    client.force_login(alice)
    assert "No version was evaluated yet" in shown(client, published)
    for number, right in ((0, 1), (1, 3)):
        complete(evaluate(published.weight_versions.get(version=number), Asked(taskset="sort", samples=2))[0], finish, right)
    evaluate(published.weight_versions.get(version=2), Asked(taskset="sort", samples=2))
    text = shown(client, published)
    assert "25.0 %" in text and "75.0 %" in text and "0/4</span> tasks" in text
    by_set = Run.objects.filter(is_evaluation=True).first().evaluation_set
    rows = shown(client, published, f"?by={by_set}").split("<tbody>")[1]
    assert [part.split("<")[0] for part in rows.split(">v")[1:4]] == ["1", "0", "2"]  # the best first, what is not known last


def test_another_figure_stands_in_the_address(client, published, alice, finish):
    client.force_login(alice)
    complete(evaluate(published.weight_versions.get(version=1), Asked(taskset="sort", samples=2))[0], finish, 2)
    assert "50.0 %" in shown(client, published, "?measure=worst&k=2")
    for nonsense in ("?measure=x&k=y", "?k=0", f"?k={10**30}", "?by=nobody"):
        assert client.get(address(published) + nonsense).status_code == 200


def test_chosen_versions_are_asked_and_bench_asks_all(client, published, alice):
    client.force_login(alice)
    assert client.post(address(published), {**ASKED, "version": ["0", "2"]}).status_code == 302
    made = Run.objects.filter(is_evaluation=True)
    assert sorted(made.values_list("evaluates__version", flat=True)) == [0, 2] and {one.owner for one in made} == {alice}
    client.post(address(published), {**ASKED, "versions": "all"})
    assert sorted(made.values_list("evaluates__version", flat=True)) == [0, 1, 2]
    client.post(address(published), {**ASKED, "version": ["0"], "again": "1"})
    assert made.all().count() == 4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"samples": "0"}, "samples"), ({"samples": "many"}, "samples"), ({"taskset": "nothing"}, "no taskset"),
        ({"version": []}, "choose one"),
        ({"temperature": "-1"}, "temperature"), ({"scorer": ["who"]}, "no scorer"), ({"tasks": "1e99"}, "tasks"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_by_its_field(client, published, alice, wrong, words):
    client.force_login(alice)
    response = client.post(address(published), {**ASKED, "version": ["0"], **wrong})
    assert response.status_code == 422 and words in response.content.decode()
    assert not Run.objects.filter(is_evaluation=True).exists()


def test_schedules_are_added_and_removed(client, published, alice):
    client.force_login(alice)
    there = address(published, "run-evaluation-schedules")
    client.post(there, {**ASKED, "every": "5", "unit": "steps"})
    published.refresh_from_db()
    assert [(one.taskset, one.every, one.unit, one.samples) for one in published.settings.evaluations] == [("sort", 5, "steps", 2)]
    assert client.post(there, {**ASKED, "every": "0"}).status_code == 422
    assert client.post(there, {"remove": "7"}).status_code == 422
    client.post(there, {"remove": "0"})
    published.refresh_from_db()
    assert published.settings.evaluations == ()


def test_who_judges_a_run_blind_learns_nothing_of_its_versions(client, published, bob, finish):
    made, _ = evaluate(published.weight_versions.get(version=1), Asked(taskset="sort", samples=2))
    complete(made, finish, 3)
    client.force_login(bob)
    for run in (published, made):
        for name in ("run-evaluations", "run-evaluations-now"):
            text = client.get(address(run, name)).content.decode()
            assert "75.0" not in text and "whisker" not in text


def test_an_evaluation_shows_its_figures_what_is_missing_and_its_hardest_tasks(client, published, alice, finish):
    client.force_login(alice)
    made, _ = evaluate(published.weight_versions.get(version=1), Asked(taskset="sort", samples=2))
    assert "Nothing is judged yet" in shown(client, made)
    complete(made, finish, 3)
    text = shown(client, made)
    assert "v1 of run-0 on sort" in text and "pass@k" in text and "75.0 %" in text
    assert f"{reverse('rollouts', args=['lab', made.slug])}?task=3" in text
    assert "evaluating" not in shown(client, published) and "Evaluated: nothing is learned" in _rollout(client, made)


def _rollout(client, made: Run) -> str:
    return client.get(reverse("rollout", args=[Rollout.objects.filter(run=made).first().pk])).content.decode()


def test_more_versions_cost_no_more_queries(client, published, alice, finish):
    client.force_login(alice)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address(published)).status_code == 200
        return len(captured)

    complete(evaluate(published.weight_versions.get(version=0), Asked(taskset="sort", samples=2))[0], finish, 1)
    evaluate(published.weight_versions.get(version=1), Asked(taskset="sort", samples=2))
    few = queries()
    publish(published, *range(3, 12))
    for version in published.weight_versions.all():
        evaluate(version, Asked(taskset="sort", samples=2))
    assert queries() <= few <= 16
