"""Evaluations in the pages: a table of versions, starting more evaluations, schedules, and the
results of one evaluation.
"""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.evaluation.asking import start_evaluation
from apps.evaluation.scheduled import add_schedule
from apps.rollouts.models import Rollout
from apps.runs.evaluation import Questions, Scheduled
from apps.runs.models import Run
from apps.tasksets.importing import generate
from apps.tasksets.scales import find_scale
from tests.dashboard.evaluating import complete, publish

pytestmark = pytest.mark.django_db
ASKED = {"taskset": "sort", "samples": "2"}


@pytest.fixture
def published(run, alice, bob, carol):
    """Create versions 0 to 2."""
    publish(run, 1, 2)
    return run


def address(run: Run, name: str = "run-evaluations") -> str:
    return reverse(name, args=["lab", run.slug])


def shown(client, run: Run, query: str = "") -> str:
    return client.get(address(run) + query).content.decode()


def versions_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'<td class="r num strong">v(\d+)', text)]


def test_versions_are_shown_side_by_side_with_their_metrics(client, published, alice, finish):
    client.force_login(alice)
    assert "No evaluations yet" in shown(client, published)
    for number, right in ((0, 1), (1, 3)):
        complete(
            start_evaluation(
                published.weight_versions.get(version=number), Questions(taskset="sort", samples=2)
            )[0],
            finish,
            right,
        )
    start_evaluation(published.weight_versions.get(version=2), Questions(taskset="sort", samples=2))
    text = shown(client, published)
    assert "25.0 %" in text and "75.0 %" in text and "0/4</span> tasks" in text
    by_set = Run.objects.filter(is_evaluation=True).first().evaluation_set
    assert versions_in(shown(client, published, f"?by={by_set}")) == [
        1,
        0,
        2,
    ]  # the best first, unknown values last


def test_tasksets_for_the_runs_scorers_are_offered_first(client, published, alice):
    client.force_login(alice)
    generate(published.project, "sort-test", "sort", 4, 9)
    generate(published.project, "arithmetic", "arithmetic", 4, 0)
    offered = re.findall(
        r'<option value="([\w-]+)"', shown(client, published).split('id="e-taskset"')[1]
    )
    assert offered[:3] == ["sort-test", "sort", "arithmetic"]


def test_versions_are_paged_by_number_and_version_0_is_always_shown(
    client, published, alice, finish
):
    client.force_login(alice)
    publish(published, *range(3, 92))
    for version in published.weight_versions.all():
        start_evaluation(version, Questions(taskset="sort", samples=2))
    assert versions_in(text := shown(client, published)) == [*range(91, 51, -1), 0]
    assert "?below=52" in text
    assert versions_in(text := shown(client, published, "?below=52&measure=mean")) == [
        *range(51, 11, -1),
        0,
    ]
    assert "?below=12&amp;measure=mean" in text
    assert versions_in(text := shown(client, published, "?below=12")) == [*range(11, -1, -1)]
    assert 'rel="next"' not in text.split("<tbody>")[1].split("</section>")[0]


def test_any_evaluated_sets_can_be_shown(client, published, alice):
    client.force_login(alice)
    base = published.weight_versions.get(version=0)
    made = [
        start_evaluation(base, Questions(taskset="sort", samples=samples))[0]
        for samples in range(1, 9)
    ]
    text = shown(client, published)
    assert [f"by={one.evaluation_set}" in text for one in made] == [False, False, *[True] * 6]
    assert all(f'name="set" value="{one.evaluation_set}"' in text for one in made)
    text = shown(
        client,
        published,
        f"?set={made[0].evaluation_set}&set={made[3].evaluation_set}&set=%20&set=nothing",
    )
    assert [one for one in made if f"by={one.evaluation_set}" in text] == [made[0], made[3]]


def test_version_links_to_its_comparison_with_the_first(client, published, alice, finish):
    client.force_login(alice)
    for number in (1, 2):
        complete(
            start_evaluation(
                published.weight_versions.get(version=number), Questions(taskset="sort", samples=2)
            )[0],
            finish,
            number,
        )
    assert f"{address(published, 'run-weights-compare')}?one=1&amp;other=2" in shown(
        client, published
    )


def test_metric_is_chosen_by_the_url_and_invalid_values_are_no_error(
    client, published, alice, finish
):
    client.force_login(alice)
    complete(
        start_evaluation(
            published.weight_versions.get(version=1), Questions(taskset="sort", samples=2)
        )[0],
        finish,
        2,
    )
    assert "50.0 %" in shown(client, published, "?measure=worst&k=2")
    for nonsense in ("?measure=x&k=y", "?k=0", f"?k={10**30}", "?by=nobody"):
        assert client.get(address(published) + nonsense).status_code == 200


def test_chosen_versions_are_evaluated_and_bench_evaluates_all(client, published, alice):
    client.force_login(alice)
    assert client.post(address(published), {**ASKED, "version": ["0", "2"]}).status_code == 302
    made = Run.objects.filter(is_evaluation=True)
    assert sorted(made.values_list("evaluates__version", flat=True)) == [0, 2] and {
        one.owner for one in made
    } == {alice}
    client.post(address(published), {**ASKED, "versions": "all"})
    assert sorted(made.values_list("evaluates__version", flat=True)) == [0, 1, 2]
    client.post(address(published), {**ASKED, "version": ["0"], "force": "1"})
    assert made.all().count() == 4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"samples": "0"}, "samples"),
        ({"samples": "many"}, "samples"),
        ({"taskset": "nothing"}, "no taskset"),
        ({"version": []}, "choose one"),
        ({"temperature": "-1"}, "temperature"),
        ({"scorer": ["who"]}, "no scorer"),
        ({"tasks": "1e99"}, "tasks"),
    ],
)
def test_invalid_evaluation_is_refused_by_field(client, published, alice, wrong, words):
    client.force_login(alice)
    response = client.post(address(published), {**ASKED, "version": ["0"], **wrong})
    assert response.status_code == 422 and words in response.content.decode()
    assert not Run.objects.filter(is_evaluation=True).exists()


def test_no_version_is_evaluated_if_one_of_the_chosen_cannot_be(client, published, alice):
    client.force_login(alice)
    published.weight_versions.filter(version=2).update(state="retired")
    for chosen in (["0", "2"], ["0", "9"]):
        answer = client.post(address(published), {**ASKED, "version": chosen})
        assert (
            answer.status_code == 422
            and "The evaluation was not started" in answer.content.decode()
        )
        assert not Run.objects.filter(is_evaluation=True).exists()


def test_every_kept_version_is_offered_and_evaluated_by_bench(client, published, alice):
    client.force_login(alice)
    publish(published, *range(3, 61))
    text = shown(client, published)
    assert (
        all(f'name="version" value="{number}"' in text for number in range(61))
        and "Evaluate all 61 versions" in text
    )
    client.post(address(published), {**ASKED, "versions": "all"})
    assert Run.objects.filter(is_evaluation=True).count() == 61


def test_oldest_of_many_kept_versions_are_entered_by_number(client, published, alice, monkeypatch):
    client.force_login(alice)
    publish(published, *range(3, 61))
    monkeypatch.setattr("apps.dashboard.views.evaluations.OLDER_KEPT", 10)
    text = shown(client, published)
    assert (
        text.count('name="version"') == 35
        and 'name="version" value="0"' in text
        and "26 older versions" in text
    )
    assert "Evaluate all 61 versions" in text
    for wrong, words in (("5-9", "is not a version number"), ("5, 400", "has no version 400")):
        answer = client.post(address(published), {**ASKED, "others": wrong})
        assert (
            answer.status_code == 422
            and words in answer.content.decode()
            and f'value="{wrong}"' in answer.content.decode()
        )
    client.post(address(published), {**ASKED, "version": ["60"], "others": "5, 7"})
    assert set(
        Run.objects.filter(is_evaluation=True).values_list("evaluates__version", flat=True)
    ) == {5, 7, 60}


def test_schedules_are_added_and_removed(client, published, alice):
    client.force_login(alice)
    there = address(published, "run-evaluation-schedules")
    client.post(there, {**ASKED, "every": "5", "unit": "steps"})
    published.refresh_from_db()
    assert [
        (one.taskset, one.every, one.unit, one.samples) for one in published.settings.evaluations
    ] == [("sort", 5, "steps", 2)]
    assert client.post(there, {**ASKED, "every": "0"}).status_code == 422
    assert (
        client.post(there, {**ASKED, "every": "5", "unit": "steps"}).status_code == 422
    )  # it already exists
    assert client.post(there, {"remove": "7"}).status_code == 422
    client.post(there, {"remove": published.settings.evaluations[0].key})
    published.refresh_from_db()
    assert published.settings.evaluations == ()


def test_removing_a_schedule_twice_removes_no_other(client, published, alice):
    client.force_login(alice)
    there = address(published, "run-evaluation-schedules")
    for samples in ("1", "2"):
        client.post(there, {**ASKED, "samples": samples, "every": "5"})
    published.refresh_from_db()
    first = published.settings.evaluations[0].key
    assert [client.post(there, {"remove": first}).status_code for _ in range(2)] == [302, 422]
    published.refresh_from_db()
    assert [one.samples for one in published.settings.evaluations] == [2]


def test_two_concurrently_added_schedules_are_both_kept(published):
    seen = Run.objects.get(pk=published.pk)
    other = Run.objects.get(pk=published.pk)
    add_schedule(seen, Scheduled(taskset="sort", samples=1))
    add_schedule(other, Scheduled(taskset="sort", samples=2))  # it had read the run earlier
    published.refresh_from_db()
    assert [one.samples for one in published.settings.evaluations] == [1, 2]


def test_schedule_is_listed_with_its_sampling_and_scoring_settings(client, published, alice):
    client.force_login(alice)
    told = {
        "temperature": "0.2",
        "scorer": "sort",
        "correct_threshold": "0.5",
        "every": "5",
        "tasks": "3",
    }
    client.post(address(published, "run-evaluation-schedules"), {**ASKED, **told})
    assert (
        "every 5 versions, 2 replies, first 3 tasks, T 0.2, scored by sort, pass threshold 50 %"
        in shown(client, published)
    )


def test_refused_schedule_keeps_its_input_and_shows_errors_in_its_own_form(
    client, published, alice
):
    client.force_login(alice)
    told = {"every": "7", "unit": "steps", "temperature": "0", "samples": "3"}
    text = client.post(
        address(published, "run-evaluation-schedules"), {**ASKED, **told}
    ).content.decode()
    asking, schedule = text.split('id="ask"')[1].split('id="schedules"')
    assert (
        'class="field-error"' not in asking
        and 'name="samples" type="number" min="1" max="1024" value="4"' in asking
    )
    assert (
        'value="7"' in schedule
        and 'value="steps" selected' in schedule
        and 'class="field-error"' in schedule
    )


def test_temperature_field_explains_greedy_sampling(client, published, alice):
    client.force_login(alice)
    text = shown(client, published)
    assert (
        'name="temperature" type="number" step="any" min="0.01"' in text
        and "0.01: always the most likely token" in text
    )


def test_k_without_results_is_reported_with_the_available_ones(client, published, alice, finish):
    client.force_login(alice)
    complete(
        start_evaluation(
            published.weight_versions.get(version=1), Questions(taskset="sort", samples=2)
        )[0],
        finish,
        2,
    )
    assert "No results for k = 3</b>. Choose 1, 2." in shown(client, published, "?k=3")
    assert "No results for k" not in shown(client, published, "?k=2")


def test_blind_rater_sees_no_evaluation_results(client, published, bob, finish):
    made, _ = start_evaluation(
        published.weight_versions.get(version=1), Questions(taskset="sort", samples=2)
    )
    complete(made, finish, 3)
    client.force_login(bob)
    for run in (published, made):
        for name in ("run-evaluations", "run-evaluations-now"):
            text = client.get(address(run, name)).content.decode()
            assert "75.0" not in text and "whisker" not in text


def test_evaluation_shows_its_metrics_and_links_its_hardest_task(client, published, alice, finish):
    client.force_login(alice)
    made, _ = start_evaluation(
        published.weight_versions.get(version=1), Questions(taskset="sort", samples=2)
    )
    assert "No results yet" in shown(client, made)
    complete(made, finish, 3)
    text = shown(client, made)
    assert "v1 of run-0 on sort" in text and "pass@k" in text and "75.0 %" in text
    assert f"{reverse('rollouts', args=['lab', made.slug])}?task=3" in text
    assert "evaluating" not in shown(
        client, published
    ) and "Evaluation: not trained on" in _rollout(client, made)


def test_results_are_shown_by_difficulty_if_the_scale_is_found_later(
    client, published, alice, finish, monkeypatch
):
    monkeypatch.setattr("apps.evaluation.results.BANDS", 2)
    client.force_login(alice)
    made, _ = start_evaluation(
        published.weight_versions.get(version=1), Questions(taskset="sort", samples=2)
    )
    complete(made, finish, 2)
    assert "sort has no difficulty scale; all tasks are of the same domain" in shown(client, made)
    for task in made.taskset.tasks.all():
        task.meta = {"digits": 5 + task.index}
        task.save()
    find_scale(made.taskset, "digits")
    text = shown(client, made)
    assert "no difficulty scale" not in text
    by_digits = text.split("By digits")[1].split("</section>")[0]
    assert re.findall(r'<td class="wrap">(.*?)</td>|<b class="num">(.*?)</b>', by_digits) == [
        ("5 – 6", ""),
        ("", "100.0 %"),
        ("7 – 8", ""),
        ("", "0.0 %"),
    ]


def _rollout(client, made: Run) -> str:
    return client.get(
        reverse("rollout", args=[Rollout.objects.filter(run=made).first().pk])
    ).content.decode()


def test_number_of_queries_does_not_grow_with_versions(client, published, alice, finish):
    client.force_login(alice)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address(published)).status_code == 200
        return len(captured)

    complete(
        start_evaluation(
            published.weight_versions.get(version=0), Questions(taskset="sort", samples=2)
        )[0],
        finish,
        1,
    )
    start_evaluation(published.weight_versions.get(version=1), Questions(taskset="sort", samples=2))
    few = queries()
    publish(published, *range(3, 12))
    for version in published.weight_versions.all():
        start_evaluation(version, Questions(taskset="sort", samples=2))
    assert queries() <= few <= 24
