"""Tasksets are stored completely or not at all, in bounded memory."""

import json
from pathlib import Path

import pytest
from django.db import IntegrityError

from apps.accounts.models import Project
from apps.tasksets.importing import generate, import_file
from apps.tasksets.models import QuarantinedLine, Task, Taskset
from apps.tasksets.storing import BadLines, Origin

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return Project.objects.create(slug="import-room", title="Imports")


def write(path: Path, lines: list[object]) -> Path:
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


def rows(count: int) -> list[object]:
    return [{"prompt": f"{n}+1", "answer": n + 1} for n in range(count)]


def test_clean_file_is_stored_in_order(project, tmp_path):
    seen = []
    path = write(tmp_path / "a.jsonl", rows(2_500))
    taskset = import_file(path, Origin(project, "sums", "Sums", "a.jsonl"), progress=seen.append)
    assert (taskset.size, taskset.quarantined, taskset.seed) == (2_500, 0, None)
    assert [task.question for task in taskset.tasks.order_by("index")[1234:1236]] == [
        "1234+1",
        "1235+1",
    ]
    assert seen == sorted(seen) and len(seen) == 3


def test_one_bad_line_refuses_the_whole_file_and_is_reported(project, tmp_path):
    path = write(tmp_path / "a.jsonl", [*rows(1_500), "oops", *rows(10)])
    with pytest.raises(BadLines) as caught:
        import_file(path, Origin(project, "sums", "Sums", "a.jsonl"))
    assert [(line.number, line.excerpt) for line in caught.value.lines] == [(1501, "oops")]
    assert not Taskset.objects.exists() and not Task.objects.exists()


def test_bad_lines_can_be_quarantined_instead(project, tmp_path):
    path = write(
        tmp_path / "a.jsonl", [*rows(3), "oops", '{"prompt": "a\\u0000", "answer": 1}', *rows(2)]
    )
    taskset = import_file(path, Origin(project, "sums", "Sums", "a.jsonl"), quarantine=True)
    assert (taskset.size, taskset.quarantined) == (5, 2)
    assert list(QuarantinedLine.objects.values_list("line", flat=True)) == [4, 5]
    assert list(taskset.tasks.order_by("index").values_list("index", flat=True)) == list(range(5))


@pytest.mark.parametrize("lines", [[], ["", "  "], ["oops"]])
def test_a_file_without_tasks_is_refused(project, tmp_path, lines):
    with pytest.raises(ValueError):
        import_file(
            write(tmp_path / "a.jsonl", lines),
            Origin(project, "sums", "Sums", "a.jsonl"),
            quarantine=True,
        )
    assert not Taskset.objects.exists()


def test_second_taskset_with_the_same_slug_is_refused(project):
    generate(project, "sort", "sort", 20, seed=1)
    with pytest.raises(IntegrityError):
        generate(project, "sort", "sort", 20, seed=1)


def test_equal_seeds_give_equal_digests_and_different_seeds_different_ones(project):
    first = generate(project, "one", "tone", 200, seed=1)
    again = generate(project, "two", "tone", 200, seed=1)
    other = generate(project, "three", "tone", 200, seed=2)
    assert first.digest == again.digest != other.digest
    assert first.size == 200 and first.source == "tone" and first.seed == 1
