"""Operators at the import of a file: rows that they leave out are listed by line and reason, and
counted.
"""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.tasksets import storing
from apps.tasksets.importing import import_file
from apps.tasksets.models import QuarantinedLine, Taskset
from apps.tasksets.storing import Origin

pytestmark = pytest.mark.django_db


@pytest.fixture
def bring(project, tmp_path):
    """Return a function that imports prompts with these command options and returns the taskset."""

    def bring(prompts: list, *words: str) -> Taskset:
        path = tmp_path / "sums.jsonl"
        path.write_text(
            "\n".join(
                json.dumps(one if isinstance(one, dict) else {"prompt": one, "answer": 1})
                for one in prompts
            )
        )
        call_command("taskset", "import", str(path), "--project", project.slug, *words)
        return Taskset.objects.get(slug="sums")

    return bring


def aside() -> list[tuple[int, str, str]]:
    return list(QuarantinedLine.objects.values_list("line", "reason", "excerpt"))


def test_left_out_tasks_are_listed_by_line_and_counted(bring):
    made = bring(
        ["1+1", "too long a question", "2+2", "ab\ufffd"],
        "--operator",
        "prompt_length",
        "--option",
        "max_length=10",
        "--operator",
        "encoding",
    )
    assert (made.size, made.left_out, made.quarantined, made.duplicates) == (2, 2, 0, 0)
    assert [task.question for task in made.tasks.order_by("index")] == ["1+1", "2+2"]
    assert aside() == [
        (2, "prompt_length: the prompt has 19 characters, more than 10", "too long a question"),
        (4, "encoding: 1 of 3 characters are broken", "ab\ufffd"),
    ]


def test_options_belong_to_the_operator_before_them_and_are_read_as_yaml(bring):
    made = bring(
        ["one two", "one", "слово слово"],
        "--operator",
        "prompt_length",
        "--option",
        "min_length=2",
        "--option",
        "unit=words",
        "--operator",
        "language",
        "--option",
        "scripts=[cyrillic]",
    )
    assert [task.question for task in made.tasks.all()] == ["слово слово"] and [
        line for line, *_ in aside()
    ] == [1, 2]


def test_operators_can_be_given_in_a_file(bring, tmp_path):
    (tmp_path / "ops.yaml").write_text(
        "- {operator: difficulty_band, options: {scale: level, low: 2}}\n"
    )
    rows = [{"prompt": str(n), "answer": 1, "meta": {"level": n}} for n in (1, 2, 3)] + [
        {"prompt": "x", "answer": 1}
    ]
    assert bring(rows, "--operators-file", str(tmp_path / "ops.yaml")).size == 2
    assert [reason for _, reason, _ in aside()] == [
        "difficulty_band: level is 1, below 2",
        "difficulty_band: the task has no number 'level'",
    ]


def test_import_leaves_out_tasks_of_an_evaluation_set(bring, taskset):
    made = bring(
        ["54321", "99"], "--operator", "contaminated", "--option", f"tasksets=[{taskset.slug}]"
    )
    assert (
        made.size == 1
        and aside()[0][1] == "contaminated: identical to task 1 of evaluation set sort"
    )


def test_duplicates_are_removed_first_and_counted_separately(bring):
    made = bring(["a\ufffd", "a\ufffd", "b"], "--operator", "encoding", "--duplicates", "drop")
    assert (made.size, made.duplicates, made.left_out) == (1, 1, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--operator", "encodding"], "did you mean 'encoding'"),
        (["--operator", "success_band"], "success_band works on groups"),
        (
            ["--operator", "prompt_length", "--option", "least=1"],
            "least: is not an option of this operator",
        ),
        (["--operator", "contaminated", "--option", "tasksets=[gone]"], "no taskset 'gone'"),
        (["--operator", "easy_to_guess"], "needs stored tasks"),
        (["--option", "max_length=1"], "after the --operator"),
        (["--operator", "encoding", "--option", "max_broken_share"], "use NAME=VALUE"),
    ],
)
def test_invalid_operators_and_options_refuse_the_file(bring, words, said):
    with pytest.raises(CommandError, match=said):
        bring(["1+1"], *words)
    assert not Taskset.objects.filter(slug="sums").exists()


def test_import_that_leaves_no_task_stores_nothing(bring):
    with pytest.raises(CommandError, match="there is no task in it"):
        bring(["1+1"], "--operator", "prompt_length", "--option", "min_length=9")
    assert not Taskset.objects.filter(slug="sums").exists() and aside() == []


def test_rows_are_checked_in_batches(project, tmp_path, monkeypatch):
    monkeypatch.setattr(storing, "BATCH", 10)
    path: Path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": str(n), "answer": n}) for n in range(95)))
    batches = []

    def odd(rows):
        batches.append(len(rows))
        return {row.line: "odd" for row in rows if row.answer["value"] % 2}

    made = import_file(path, Origin(project, "sums", "Sums", "a"), why_not=odd)
    assert (made.size, made.left_out, max(batches), sum(batches)) == (48, 47, 10, 95)
