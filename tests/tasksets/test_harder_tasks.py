"""Harder tasks are one grade above the solved ones, use the same template and name their parent."""

import io
import random

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.urls import reverse

from apps.dashboard.reconciliation import reconcile
from apps.rewards.scorers import find_scorer
from apps.rollouts.task_stats import GroupResult, TaskRecord
from apps.runs.selection import Bots
from apps.tasksets.generators import find_generator as generator
from apps.tasksets.generators.countdown import ASKED
from apps.tasksets.harder_tasks import GRADED, find_graded_generator
from apps.tasksets.importing import generate
from apps.tasksets.ledger import derived_tasks_name_their_source
from apps.tasksets.models import Task, TaskParent, Taskset
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.scales import begin_scale, finish_scale, save_values
from apps.tasksets.storing import Origin, build_row, store_taskset
from tests.tasksets.test_graded_generators import right, solved


def said(*arguments: object) -> str:
    out = io.StringIO()
    call_command("taskset", "harder", *map(str, arguments), stdout=out)
    return out.getvalue()


def refusal(*arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        said(*arguments)
    return str(caught.value)


@pytest.fixture
def tried(new_run):
    """Create a run over the four tasks of `sort` that has solved tasks 0 and 2; task 3 has too few
    attempts to count.
    """
    run = new_run()
    for index, successes in enumerate(([1, 1, 1, 0.2], [1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1])):
        TaskRecord.add(
            run.pk,
            [GroupResult(run.taskset.tasks.get(index=index).pk, index, successes)],
            2,
            Bots(),
        )
    return run


# -- generators


@pytest.mark.parametrize("name", GRADED)
def test_task_of_a_graded_generator_is_recognised_only_by_its_template(name):
    for row in generator(name)(60, 3):
        assert find_graded_generator(row) is GRADED[name]


@pytest.mark.parametrize("name", sorted({"math", "tone", "katas", "guess_number", "tone_dialogue"}))
def test_tasks_of_other_generators_have_no_graded_generator(name):
    assert [find_graded_generator(row) for row in generator(name)(20, 3)] == [None] * 20


@pytest.mark.parametrize(
    "row",
    [
        TaskRow(user_message("1+2"), {"value": 4}),
        TaskRow(user_message("1+2"), {"value": 3}, follow_ups=["And 2+2?"]),
        TaskRow([{"role": "system", "content": "Be brief."}, *user_message("1+2")], {"value": 3}),
        TaskRow(user_message("31425"), {"value": 12345}),
        TaskRow(user_message("What is 1+2?"), {"value": 3}),
        TaskRow(
            user_message(ASKED.format(target=6, numbers="1, 2, 3")),
            {"target": 6, "numbers": [1, 2]},
        ),
        TaskRow(
            user_message("Question 7, physics, grade 12. Why?"),
            {},
            {"subject": "physics"},
            domain="physics",
        ),
    ],
)
def test_similar_looking_task_has_no_graded_generator(row):
    assert find_graded_generator(row) is None


@pytest.mark.parametrize("name", GRADED)
def test_harder_task_has_the_next_grade_of_the_same_generator(name):
    module = GRADED[name]
    draw = random.Random(5)
    for row in generator(name)(60, 4):
        grade = module.read_grade(row)
        made = module.harder(row, draw)
        if name == "k12":
            higher = [one for one in module.GRADES[row.domain] if one > grade]
            assert (module.read_grade(made) if made else None) == next(iter(higher), None)
            assert made is None or made.domain == row.domain
        else:
            assert module.read_grade(made) == grade + 1


@pytest.mark.parametrize("name", ["arithmetic", "countdown", "sort"])
def test_grades_increase_one_by_one_up_to_the_highest(name):
    module = GRADED[name]
    draw = random.Random(6)
    [row] = generator(name)(1, 4)
    grades = [module.read_grade(row)]
    while row := module.harder(row, draw):
        grades.append(module.read_grade(row))
    assert grades == list(range(grades[0], module.MAX_GRADE + 1))


def test_scorers_reward_right_answers_of_harder_tasks():
    draw = random.Random(7)
    sums = [GRADED["arithmetic"].harder(row, draw) for row in generator("arithmetic")(10, 1)]
    assert [find_scorer("arithmetic").of(str(row.answer["value"]), row).value for row in sums] == [
        1.0
    ] * 10
    digits = [GRADED["sort"].harder(row, draw) for row in generator("sort")(10, 1)]
    assert [find_scorer("sort").of(row.answer["sorted"], row).value for row in digits] == [1.0] * 10
    first = next(row for row in generator("countdown")(20, 1) if len(row.answer["numbers"]) == 3)
    made = GRADED["countdown"].harder(first, draw)
    formula = solved(made.answer["numbers"], made.answer["target"])
    assert find_scorer("countdown").of(f"<answer>{formula}</answer>", made).value == 1.0
    school = [made for row in generator("k12")(40, 1) if (made := GRADED["k12"].harder(row, draw))]
    assert school and {
        find_scorer(row.meta["scorer"]).of(right(row), row).value for row in school
    } == {1.0}


# -- sets


def test_tasks_solved_by_a_run_get_harder_tasks_that_name_their_parent(tried):
    told = said("sort", "--run", tried.slug, "--per-task", "2")
    made = Taskset.objects.get(slug="sort-harder")
    assert "taskset sort-harder: 4 tasks" in told
    assert made.source == f"one grade harder than what is solved of sort by {tried.slug}"
    tasks = list(made.tasks.order_by("index").select_related("descent__parent"))
    assert [task.descent.parent.index for task in tasks] == [0, 0, 2, 2]
    assert [task.meta["parents"] for task in tasks] == [["sort#0"]] * 2 + [["sort#2"]] * 2
    assert {(len(task.question), task.meta["grade"]) for task in tasks} == {(6, 6)} and len(
        {task.question for task in tasks}
    ) == 4
    assert [task.answer for task in tasks] == [
        {"sorted": "".join(sorted(task.question))} for task in tasks
    ]
    assert (
        reconcile()["derived tasks name their source"]
        == reconcile()["tasksets are unchanged"]
        == []
    )


def test_harder_tasks_can_be_made_harder_again(tried):
    said("sort", "--run", tried.slug)
    first = Taskset.objects.get(slug="sort-harder")
    scale = begin_scale(first, "difficulty", "4 tries of tiny")
    save_values(scale, {task.pk: task.index / 4 for task in first.tasks.all()})
    finish_scale(scale)
    said("sort-harder", "--scale", "difficulty", "--min-success-rate", "0.9", "--name", "hardest")
    [task] = Taskset.objects.get(slug="hardest").tasks.all()
    assert (len(task.question), task.descent.parent) == (7, first.tasks.get(index=0))
    assert task.meta["parents"] == ["sort-harder#0"]


def test_equal_seeds_make_equal_tasksets_and_different_seeds_different_ones(tried):
    for seed, slug in ((3, "a"), (3, "b"), (4, "c")):
        said("sort", "--run", tried.slug, "--seed", seed, "--name", slug)
    first, again, other = (Taskset.objects.get(slug=slug) for slug in "abc")
    assert first.digest == again.digest != other.digest and first.seed == 3


def test_tasks_that_the_taskset_already_contains_are_not_created_again(tried, monkeypatch, project):
    taken = tried.taskset.tasks.get(index=1)
    drawn = iter([build_row(taken), build_row(tried.taskset.tasks.get(index=3))])
    fresh = TaskRow(user_message("987654"), {"sorted": "456789"})
    monkeypatch.setattr(GRADED["sort"], "harder", lambda row, draw: next(drawn, fresh))
    told = said("sort", "--run", tried.slug)
    assert [task.question for task in Taskset.objects.get(slug="sort-harder").tasks.all()] == [
        "987654"
    ]
    assert (
        "left out: 1 of the tasks have no harder version that is not already in the taskset" in told
    )


def test_tasks_without_a_harder_version_are_counted_by_reason(project):
    store_taskset(
        Origin(project, "mixed", "Mixed", "test"),
        [
            TaskRow(user_message(digits), {"sorted": "".join(sorted(digits))})
            for digits in ("3" * 20, "21")
        ]
        + [TaskRow(user_message("Who?"), {"value": "he"})],
    )
    taskset = Taskset.objects.get(slug="mixed")
    scale = begin_scale(taskset, "difficulty", "4 tries of tiny")
    save_values(scale, {task.pk: 0.0 for task in taskset.tasks.all()})
    finish_scale(scale)
    told = said("mixed", "--scale", "difficulty")
    assert "taskset mixed-harder: 1 tasks" in told
    assert (
        "left out: 1 of the tasks are already of the highest grade, "
        "1 of the tasks are not from a generator with grades" in told
    )


def test_taskset_without_grades_is_refused(new_run, project):
    generate(project, "maths", "math", 4, 0)
    taskset = Taskset.objects.get(slug="maths")
    scale = begin_scale(taskset, "difficulty", "4 tries of tiny")
    save_values(scale, {task.pk: 0.0 for task in taskset.tasks.all()})
    finish_scale(scale)
    assert (
        refusal("maths", "--scale", "difficulty")
        == "no task can be made: 4 of the tasks are not from a generator with grades"
    )
    assert not Taskset.objects.filter(slug="maths-harder").exists()


def test_error_names_the_invalid_option(tried):
    assert (
        refusal("sort", "--run", tried.slug, "--min-success-rate", "1.01")
        == "--min-success-rate: must be from 0 to 1"
    )
    assert (
        refusal("sort", "--run", tried.slug, "--min-attempts", "0")
        == "--min-attempts: must be 1 or more"
    )
    assert (
        refusal("sort", "--run", tried.slug, "--per-task", "0")
        == "--per-task: must be from 1 to 1000"
    )
    assert "no task of sort is solved by" in refusal(
        "sort", "--run", tried.slug, "--min-attempts", "5"
    )
    assert "has no scale 'nope' of `manage.py taskset difficulty`" in refusal(
        "sort", "--scale", "nope"
    )
    said("sort", "--run", tried.slug)
    assert "--name: taskset 'sort-harder' already exists" in refusal("sort", "--run", tried.slug)


def test_run_that_tried_no_task_of_the_taskset_is_refused(tried, project):
    generate(project, "other", "sort", 4, 1)
    assert (
        refusal("other", "--run", tried.slug)
        == f"--run: {tried.slug} has not tried any task of other"
    )


# -- on record


def test_taskset_pages_link_to_the_parent_and_to_derived_tasksets(tried, client, alice):
    said("sort", "--run", tried.slug)
    client.force_login(alice)
    made = client.get(reverse("taskset", args=["lab", "sort-harder"])).content.decode()
    assert '?from=2">sort 2</a>' in made and made.count("made from <a") == 2
    parent = client.get(reverse("taskset", args=["lab", "sort"])).content.decode()
    assert (
        "Derived tasksets" in parent and reverse("taskset", args=["lab", "sort-harder"]) in parent
    )


def test_reconcile_reports_a_derived_task_without_its_parent(tried):
    said("sort", "--run", tried.slug)
    TaskParent.objects.get(task__index=1).delete()
    assert list(derived_tasks_name_their_source()) == [
        "taskset sort-harder: only 1 of 2 tasks name the task they were made from"
    ]


def test_task_cannot_have_a_later_task_as_parent(taskset):
    first, second = taskset.tasks.order_by("pk")[:2]
    with pytest.raises(IntegrityError, match="a_task_is_younger_than_its_parent"):
        TaskParent.objects.create(task=first, parent=second)


def test_reconcile_reports_a_parent_task_of_another_project(taskset, db):
    other = type(taskset.project).objects.create(slug="other", title="Other")
    strange = Taskset.objects.create(project=other, slug="s", title="S", source="test", size=1)
    task = Task.objects.create(taskset=strange, index=0, prompt=user_message("1"), digest="0" * 64)
    TaskParent.objects.create(task=task, parent=taskset.tasks.first())
    assert any("of a different project" in why for why in derived_tasks_name_their_source())
