"""A run with the scorer `code` and tasks without tests is refused before it starts."""

import json

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.rewards.scoring import require_known_scorers
from apps.runs.config import ConfigError
from apps.tasksets.importing import import_file
from apps.tasksets.storing import Origin

pytestmark = pytest.mark.django_db
TESTS = {"tests": [{"stdin": "1", "stdout": "2"}]}


@pytest.fixture
def answer(taskset):
    """Return a function that sets the answer of all tasks, and a different one for one task."""

    def write(common: dict, other: dict | None = None, domain: str = "") -> None:
        taskset.tasks.update(answer=common, domain="code")
        if other is not None:
            taskset.tasks.filter(index=2).update(answer=other, domain=domain)

    return write


def problems(plan, project, **options: object) -> dict[str, str]:
    try:
        require_known_scorers(plan(rewards=[{"scorer": "code", **options}]), project)
    except ConfigError as refused:
        return refused.problems
    return {}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"value": 4}, "the answer contains none"),
        ({"tests": []}, "tests: the task has none"),
        ({}, "the answer contains none"),
        (TESTS, ""),
        ({"value": '{"inputs": ["1"], "outputs": ["2"]}'}, ""),
    ],
)
def test_first_task_without_tests_is_reported(plan, project, answer, other, why):
    answer(TESTS, other, domain="code")
    found = problems(plan, project)
    if not why:
        assert found == {}
    else:
        assert list(found) == ["rewards.0.scorer"]
        assert "task 2 of" in found["rewards.0.scorer"] and why in found["rewards.0.scorer"]


def test_scorer_limited_to_a_domain_needs_no_tests_for_other_tasks(plan, project, answer):
    answer(TESTS, {"value": 4}, domain="maths")
    refused = problems(plan, project)
    assert "task 2 of" in refused["rewards.0.scorer"]
    only_code = problems(plan, project, domains=["code"])
    assert "rewards.0.scorer" not in only_code


def test_imported_mbpp_file_is_accepted_and_judged(plan, project, tmp_path):
    lines = [
        {"text": f"Write f that adds {n}.", "code": "…", "test_list": [f"assert f(1) == {n + 1}"]}
        for n in range(8)
    ]
    file = tmp_path / "mbpp.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    taskset = import_file(file, Origin(project, "mbpp", "MBPP", "mbpp.jsonl"))
    require_known_scorers(plan(taskset="mbpp", rewards=[{"scorer": "code"}]), project)
    for task in taskset.tasks.order_by("index")[:2]:
        right = RolloutView(f"```python\ndef f(a):\n    return a + {task.index}\n```")
        wrong = RolloutView("```python\ndef f(a):\n    return a - 1\n```")
        asked = TaskView(task.prompt, task.answer, task.domain, task.meta)
        assert [one.value for one in find_scorer("code").judge([right, wrong], asked, {})] == [
            1.0,
            0.0,
        ]
