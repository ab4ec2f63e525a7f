"""Evaluation sets in operators: which of their tasks a group's prompt contains, and which sets a
pipeline may use.
"""

import json
from collections import OrderedDict

import pytest
from django.urls import reverse

from apps.accounts.models import Project
from apps.buffer.models import Experience
from apps.pipelines import evaluation_sets
from apps.pipelines.again import given_up
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.dry_run import dry_run
from apps.pipelines.evaluation_sets import Index, load_index
from apps.pipelines.models import CutRollout
from apps.rollouts.models import Group
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.growing import grown_from_nothing
from apps.tasksets.models import Task
from apps.tasksets.overlap import TooMuch
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store_taskset

LONG = "A farmer has twelve sheep and sells five of them at the market in spring"
PICTURE = {"type": "image", "picture": "a" * 64, "width": 8, "height": 8}


def asks(*said: object) -> list[dict]:
    return [{"role": "user", "content": content} for content in said]


@pytest.fixture
def stored(project):
    """Return a function that stores a taskset with this slug and tasks with these texts."""

    def make(slug, *texts):
        return store_taskset(
            Origin(project, slug, slug, "test"), [TaskRow(asks(text), {}, {}) for text in texts]
        )

    return make


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch):
    monkeypatch.setattr(evaluation_sets, "_held", OrderedDict())
    monkeypatch.setattr(evaluation_sets, "_sizes", {})


def without(*names: str, **more: object) -> list[dict]:
    return [{"operator": "contaminated", "options": {"tasksets": list(names), **more}}]


def test_groups_whose_task_is_in_the_set_are_dropped_and_others_are_not(new_run, judge, stored):
    stored("held-out", LONG, " 31425 ")  # the run's first task, except for white space
    run = new_run(pipeline=without("held-out"))
    groups = judge(run, *[(0.0, 1.0)] * 4)
    dropped = {
        group.task.question: group.reason for group in groups if group.state == Group.State.DROPPED
    }
    assert dropped == {"31425": "contaminated: identical to task 1 of evaluation set held-out"}
    assert (
        CutRollout.objects.filter(operator="contaminated").count() == 2
        and Experience.objects.count() == 6
    )


def test_dry_run_shows_what_would_be_dropped(new_run, judge, stored):
    stored("held-out", "54321")
    run = new_run()
    judge(run, *[(0.0, 1.0)] * 4)
    tried = dry_run(run, [OperatorChoice(**without("held-out")[0])])
    assert (tried.before[0], tried.after[0]) == (4, 3) and "held-out" in tried.dropped[0][0]


def test_deleted_evaluation_set_keeps_groups_waiting_and_trains_none(new_run, judge, stored):
    held_out = stored("held-out", "54321")
    run = new_run(pipeline=without("held-out"), group_attempts=1)
    held_out.delete()
    judge(run, (0.0, 1.0))
    assert (
        "evaluation set 'held-out' no longer exists" in given_up(run).get().reason
        and not Experience.objects.exists()
    )


# -- comparing


def test_task_inside_a_longer_prompt_is_found_with_its_share(stored):
    index = Index(stored("held-out", "Name a colour.", LONG, f"{LONG} to two people"))
    met = index.most_said(
        Task(prompt=[{"role": "system", "content": "Count."}, *asks("Read this.", LONG)])
    )
    assert (met.checked, met.share, met.is_exact) == (1, 1.0, False)
    assert index.most_said(Task(prompt=asks("NAME a  colour."))).is_exact
    assert (
        index.most_said(Task(prompt=asks("Name a colour. Name another one, and then tell me why")))
        is None
    )


def test_follow_ups_are_part_of_the_task(stored):
    index = Index(stored("held-out", f"{LONG}\nHow many are left?"))
    assert index.most_said(Task(prompt=asks(LONG), follow_ups=["How many are left?"])).is_exact


def test_two_tasks_without_text_are_not_equal(project):
    silent = store_taskset(
        Origin(project, "quiet", "", "test"), [TaskRow([{"role": "user", "content": " "}], {}, {})]
    )
    assert Index(silent).most_said(Task(prompt=[{"role": "system", "content": "Play."}])) is None


def test_same_question_about_another_picture_is_another_task(project):
    asked = [
        {
            "type": "text",
            "text": "How many apples are there on the table that you see in this picture?",
        },
        PICTURE,
    ]
    index = Index(
        store_taskset(Origin(project, "seen", "", "test"), [TaskRow(asks(asked), {}, {})])
    )
    other = [asked[0], {**PICTURE, "picture": "b" * 64}]
    assert (
        index.most_said(Task(prompt=asks(other))) is None
        and index.most_said(Task(prompt=asks(asked))).is_exact
    )


# -- caching


def test_index_is_built_once_for_equal_contents(stored, django_assert_num_queries):
    one = stored("one", LONG)
    same = stored("same", LONG)
    built = load_index(one, 1_000)
    with django_assert_num_queries(0):
        assert load_index(same, 1_000) is built


def test_least_recently_used_index_is_evicted(stored, monkeypatch):
    one, two, three = (stored(name, f"{LONG} {name}") for name in ("one", "two", "three"))
    monkeypatch.setattr(evaluation_sets, "MAX_HELD", 2 * load_index(one, 1_000).size)
    kept = load_index(one, 1_000)
    load_index(two, 1_000)
    load_index(one, 1_000)
    load_index(three, 1_000)
    assert (
        list(evaluation_sets._held) == [one.digest, three.digest] and load_index(one, 1_000) is kept
    )


def test_set_too_large_for_memory_keeps_groups_waiting(new_run, judge, stored, monkeypatch):
    stored("held-out", LONG)
    monkeypatch.setattr(evaluation_sets, "MAX_HELD", 3)
    run = new_run(pipeline=without("held-out"), group_attempts=1)
    judge(run, (0.0, 1.0))
    assert "too large" in given_up(run).get().reason


def test_sets_too_large_together_keep_groups_waiting(new_run, judge, stored, monkeypatch):
    one = load_index(stored("one", LONG), 1_000)
    stored("two", f"{LONG} again")
    monkeypatch.setattr(evaluation_sets, "MAX_HELD", one.size + 1)
    run = new_run(pipeline=without("one", "two"), group_attempts=1)
    judge(run, (0.0, 1.0))
    assert "'two' no longer exists or is too large" in given_up(run).get().reason


def test_set_too_large_for_memory_is_read_once(stored, monkeypatch, django_assert_num_queries):
    large = stored("held-out", LONG)
    monkeypatch.setattr(evaluation_sets, "MAX_HELD", 3)
    with pytest.raises(TooMuch):
        load_index(large, evaluation_sets.MAX_HELD)
    with django_assert_num_queries(0), pytest.raises(TooMuch, match="8-grams"):
        load_index(large, evaluation_sets.MAX_HELD)


# -- which sets are allowed


def test_unusable_evaluation_sets_are_reported_by_field(plan, project, stored):
    stored("held-out", LONG)
    grown_from_nothing(project, "asked")
    problems = find_pipeline_problems(
        plan(pipeline=[{"operator": "fresh"}, *without("held-out", "gone", "asked", "sort")]),
        project,
    )
    field = "pipeline.1.options.tasksets"
    assert problems == {
        f"{field}.1": "the project has no taskset 'gone' that cannot grow",
        f"{field}.2": "the project has no taskset 'asked' that cannot grow",
        f"{field}.3": (
            "'sort' is the run's own taskset, so all of its groups would be dropped; name test sets"
        ),
    }


@pytest.mark.parametrize("name", ["", "a b", "x" * 51])
def test_invalid_taskset_name_is_refused_by_its_pattern(plan, project, name):
    [(field, words)] = find_pipeline_problems(
        plan(pipeline=without("held-out", name)), project
    ).items()
    assert field == "pipeline.0.options.tasksets.1" and "pattern" in words


def test_too_many_evaluation_tasks_are_refused(plan, project, stored, monkeypatch):
    stored("held-out", LONG, "Name a colour.")
    monkeypatch.setattr(evaluation_sets, "MAX_TASKS", 1)
    [(field, words)] = find_pipeline_problems(plan(pipeline=without("held-out")), project).items()
    assert field == "pipeline.0.options.tasksets" and "2 tasks in total" in words


def test_api_refuses_a_run_with_another_projects_evaluation_set(
    alice, policy, taskset, plan, client
):
    store_taskset(
        Origin(Project.objects.create(slug="else", title=""), "held-out", "", "test"),
        [TaskRow(asks(LONG), {}, {})],
    )
    client.force_login(alice)
    config = plan(pipeline=without("held-out")).model_dump(mode="json")
    asked = {"project": "lab", "slug": "new", "title": "New", "config": config}
    said = client.post(reverse("api:runs"), json.dumps(asked), content_type="application/json")
    assert said.status_code == 422 and "pipeline.0.options.tasksets.0" in said.content.decode()
