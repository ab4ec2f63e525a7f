"""A task that occurs twice in a file is kept, dropped and listed, or makes the import fail, as
requested; it is never lost silently.
"""

import json

import pytest

from apps.tasksets.duplicates import SeenContents
from apps.tasksets.importing import import_file
from apps.tasksets.models import QuarantinedLine, Taskset
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.storing import BATCH, BadLines, Origin

ROWS = [
    {"prompt": "a", "answer": 1, "meta": {"id": 1}},
    {"prompt": "b", "answer": 1},
    {"prompt": "a", "answer": 1, "meta": {"id": 2}, "domain": "math"},
    {"prompt": "a", "answer": 2},
    {"prompt": "a", "answer": 1, "follow_ups": ["and then?"]},
    {"prompt": "b", "answer": {"value": 1}},
]


@pytest.fixture
def bring(project, tmp_path):
    def bring(duplicates: str, rows=ROWS, **how) -> Taskset:
        (tmp_path / "a.jsonl").write_text(
            "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
        )
        return import_file(
            tmp_path / "a.jsonl",
            Origin(project, "twice", "Twice", "a.jsonl"),
            duplicates=duplicates,
            **how,
        )

    return bring


def listed() -> list[tuple]:
    return list(QuarantinedLine.objects.values_list("line", "reason", "excerpt", "same_as"))


def test_duplicates_are_kept_when_keep_is_requested(bring):
    taskset = bring("keep")
    assert (taskset.size, taskset.duplicates, taskset.quarantined, listed()) == (6, 0, 0, [])


def test_dropped_duplicates_are_counted_and_listed_with_the_line_they_repeat(bring):
    taskset = bring("drop")
    assert (taskset.size, taskset.duplicates, taskset.quarantined) == (4, 2, 0)
    assert listed() == [
        (3, "duplicate of line 1", "a", 1),
        (6, "duplicate of line 2", "b", 2),
    ]
    assert [task.index for task in taskset.tasks.order_by("index")] == [0, 1, 2, 3]


def test_refused_duplicates_report_their_lines_and_nothing_is_stored(bring):
    with pytest.raises(BadLines) as caught:
        bring("refuse", quarantine=True)
    assert [(line.number, line.same_as) for line in caught.value.lines] == [(3, 1), (6, 2)]
    assert not Taskset.objects.exists() and listed() == []


def test_bad_lines_and_duplicates_are_counted_separately_and_listed_together(bring):
    taskset = bring("drop", ["oops", *ROWS[:3]], quarantine=True)
    assert (taskset.size, taskset.duplicates, taskset.quarantined) == (2, 1, 1)
    assert [line[0] for line in listed()] == [1, 4]


def test_first_occurrence_is_kept_across_batches(bring):
    rows = [
        {"prompt": f"task {n % (BATCH + 10)}", "answer": n % (BATCH + 10)}
        for n in range(2 * BATCH + 20)
    ]
    taskset = bring("drop", rows)
    assert (taskset.size, taskset.duplicates) == (BATCH + 10, BATCH + 10)
    assert all(line - same == BATCH + 10 for line, _, _, same in listed())


def test_imports_do_not_share_remembered_contents(project, db):
    row = TaskRow(user_message("a"), {"value": 1}, line=7)
    assert SeenContents().first_lines([row, row]) == [7, 7]
    assert SeenContents().first_lines([TaskRow(user_message("a"), {"value": 1}, line=9)]) == [9]
