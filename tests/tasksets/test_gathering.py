"""Files that spread one item over several rows: messages of a tree, annotations of a task."""

import json

import pytest

from apps.feedback.reading import LessonColumns, LessonLine, LessonRows
from apps.tasksets.sources.records import BadLine, Record


def lessons(rows: list[dict], kind: str, min_rating: float | None = None) -> list:
    records = [
        Record(number, row, json.dumps(row).encode()) for number, row in enumerate(rows, start=1)
    ]
    return list(LessonRows(records, kind, LessonColumns(min_rating=min_rating)))


def message(name: str, parent: str | None, text: str, **more: object) -> dict:
    """Return a row as OpenAssistant's …messages.jsonl has it."""
    return {
        "message_id": name,
        "parent_id": parent,
        "user_id": "u",
        "text": text,
        "role": "assistant",
        "rank": None,
        "review_result": True,
        "deleted": False,
        "message_tree_id": name[0],
        "labels": {"name": ["spam"], "value": [0]},
    } | more


TREE = [
    message("t", None, "Why?", role="prompter"),
    message("t1", "t", "Because.", rank=0.0),
    message("t2", "t1", "And?", role="prompter"),
    message("t3", "t2", "That is all."),
    message("t4", "t", "No idea.", rank=1.0),
]
OTHER = [
    message("s", None, "Who?", role="prompter"),
    message("s1", "s", "Ann.", rank=0),
    message("s2", "s", "Nobody.", rank=1, deleted=True),
]


def test_messages_in_separate_rows_are_assembled_into_trees():
    pairs = lessons(TREE + OTHER, "preferences")
    assert [(one.number, one.fields["chosen"], one.fields["rejected"]) for one in pairs[:1]] == [
        (1, "Because.", "No idea.")
    ]
    # One reply of the second tree is deleted, so there is nothing to compare.
    assert isinstance(pairs[1], BadLine) and pairs[1].number == 6
    shown = lessons(TREE + OTHER, "demonstrations")
    assert [(one.number, one.prompt[-1]["content"], one.fields["answer"]) for one in shown] == [
        (1, "Why?", "Because."),
        (1, "And?", "That is all."),
        (6, "Who?", "Ann."),
    ]


@pytest.mark.parametrize("rows", [TREE[1:], [TREE[0], *TREE[2:]], [TREE[0], *OTHER, *TREE[1:]]])
def test_tree_with_a_missing_message_is_one_bad_line_with_all_its_rows(rows):
    bad = [one for one in lessons(rows, "demonstrations") if isinstance(one, BadLine)]
    assert "sort the file by message_tree_id" in bad[-1].reason
    assert sum(one.raw.count(b'"message_id"') for one in bad) in (len(rows), len(rows) - 3)


def annotated(**fields: object) -> dict:
    """Return a row of Label Studio's JSON_MIN."""
    return {
        "id": 1,
        "prompt": "Why?",
        "annotator": 3,
        "annotation_id": 5,
        "created_at": "2024-01-01T00:00:00Z",
        "updated_at": "2024-01-01T00:00:00Z",
        "lead_time": 3.2,
    } | fields


def in_cells(**fields: object) -> dict:
    """Return the same row as Label Studio's CSV has it."""
    row = annotated(was_cancelled=False, **fields)
    return {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in row.items()
    }


ONE = {"response": "Because."}
TWO = {"answer1": "Because.", "answer2": "No idea."}
UP = {"completion": "Because.", "is_up": True}
PAIR = {"chosen": "No idea.", "rejected": "Because.", "margin": None}


@pytest.mark.parametrize("made", [annotated, in_cells])
@pytest.mark.parametrize(
    ("fields", "kind", "min_rating", "said"),
    [
        ({**ONE, "quality": "good"}, "thumbs", None, UP),
        ({**ONE, "quality": "bad"}, "thumbs", None, UP | {"is_up": False}),
        ({**ONE, "stars": [{"rating": 4}]}, "thumbs", 3, UP),
        ({**ONE, "stars": [{"rating": 2}]}, "thumbs", 3, UP | {"is_up": False}),
        ({**ONE, "quality": {"choices": ["good", "long"]}}, "thumbs", None, UP),
        ({**TWO, "which": [{"selected": "right"}]}, "preferences", None, PAIR),
        ({**ONE, "quality": "good"}, "demonstrations", None, {"answer": "Because."}),
        ({**ONE, "corrected": "Rain."}, "demonstrations", None, {"answer": "Rain."}),
        ({"answer": "Rain."}, "demonstrations", None, {"answer": "Rain."}),
    ],
)
def test_label_studio_annotation_row_is_read_as_the_expected_lesson(
    made, fields, kind, min_rating, said
):
    (one,) = lessons([made(**fields)], kind, min_rating)
    assert (one.fields, one.prompt[0]["content"]) == (said, "Why?")


def test_answer_that_any_annotator_rated_bad_is_not_a_demonstration():
    rows = [annotated(**ONE, quality="good"), annotated(**ONE, quality="bad", annotator=4)]
    (bad,) = lessons(rows, "demonstrations")
    assert isinstance(bad, BadLine) and "rated this answer as bad" in bad.reason
    thumbs = lessons(rows, "thumbs")
    assert [(one.author, one.fields["is_up"]) for one in thumbs] == [
        ("annotator-3", True),
        ("annotator-4", False),
    ]


def test_cancelled_annotation_is_a_bad_line():
    (bad,) = lessons([in_cells(**ONE, quality="good") | {"was_cancelled": "True"}], "thumbs")
    assert isinstance(bad, BadLine)


def test_rows_of_another_layout_between_tree_rows_are_read_normally():
    other = {"prompt": "Who?", "answer": "Ann."}
    first, second, third = lessons([*OTHER[:2], other, *TREE[:2]], "demonstrations")
    assert [one.number for one in (first, second, third)] == [1, 3, 4]
    assert isinstance(second, LessonLine) and second.fields == {"answer": "Ann."}
