"""Lessons from files: every valid line becomes one row, every invalid line is reported, and nothing
is stored twice.
"""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.feedback import importing
from apps.feedback.importing import BadLessons, Destination, LessonFile, import_lessons
from apps.feedback.models import LESSONS, Demonstration, Preference, Thumb
from apps.feedback.reading import LessonColumns, LessonLine, LessonRows
from apps.tasksets.importing import import_file
from apps.tasksets.sources.jsonl import iterate_records
from apps.tasksets.storing import Origin
from tests.profiles import tries
from tests.tasksets.test_messages import HOW_MANY, data_url, png, shown

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path):
    """Write lines (dicts as JSON) and return the path."""

    def write(*lines: object):
        path = tmp_path / "lessons.jsonl"
        path.write_text(
            "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        )
        return path

    return write


def refused(path, kind: str, to: Destination) -> list[str]:
    with pytest.raises(BadLessons) as refusal:
        import_lessons(LessonFile(path, kind), to)
    return [f"{line.number}: {line.reason}" for line in refusal.value.lines]


def test_prompt_of_the_taskset_is_matched_to_its_task(project, taskset, file):
    import_lessons(
        LessonFile(file({"prompt": "54321", "answer": "12345"}), "demonstrations"),
        Destination(project, "f", taskset),
    )
    assert (Demonstration.objects.get().task.index, Demonstration.objects.get().answer) == (
        1,
        "12345",
    )


def test_a_task_can_be_named_by_its_index(project, taskset, file):
    import_lessons(
        LessonFile(file({"task": 2, "answer": "12345"}), "demonstrations"),
        Destination(project, "f", taskset),
    )
    assert Demonstration.objects.get().prompt == [{"role": "user", "content": "13254"}]


def test_any_prompt_is_accepted_without_a_taskset(project, file):
    import_lessons(
        LessonFile(file({"prompt": "hello", "answer": "hi"}), "demonstrations"),
        Destination(project, "f"),
    )
    assert Demonstration.objects.get().task is None


def test_differently_written_messages_are_the_same_prompt(project, taskset, file):
    line = '{"prompt": [{"content": "543\\u00321", "role": "user"}], "answer": "12345"}'
    import_lessons(LessonFile(file(line), "demonstrations"), Destination(project, "f", taskset))
    assert Demonstration.objects.get().task.index == 1


def test_prompt_with_a_picture_needs_its_task_in_the_taskset(project, file):
    prompt = [{"role": "user", "content": [shown(data_url(png())), HOW_MANY]}]
    tasks = import_file(
        file({"prompt": prompt, "answer": 3}), Origin(project, "seen", "Seen", "seen.jsonl")
    )
    path = file({"prompt": prompt, "answer": "three"})
    import_lessons(LessonFile(path, "demonstrations"), Destination(project, "f", tasks))
    assert Demonstration.objects.get().task == tasks.tasks.get()
    (why,) = refused(path, "demonstrations", Destination(project, "f"))
    assert "1: prompt: contains a picture. Import its task" in why


def test_importing_again_changes_nothing(project, file):
    path = file(
        {"prompt": "a", "chosen": "b", "rejected": "c", "margin": 0.5},
        {"prompt": "a", "chosen": "c", "rejected": "d"},
    )
    first = import_lessons(LessonFile(path, "preferences"), Destination(project, "f"))
    rows = list(Preference.objects.values())
    again = import_lessons(LessonFile(path, "preferences"), Destination(project, "f"))
    assert (first.new, first.existing, again.new, again.existing) == (2, 0, 0, 2)
    assert list(Preference.objects.values()) == rows


def test_repeated_line_in_a_file_is_one_row(project, file):
    line = {"prompt": "a", "completion": "b", "label": True}
    assert (
        import_lessons(LessonFile(file(line, line), "thumbs"), Destination(project, "f")).existing
        == 1
    )
    assert Thumb.objects.count() == 1


def test_two_authors_may_give_the_same_label(project, alice, bob, file):
    lines = [
        {"prompt": "a", "completion": "b", "label": True, "author": name}
        for name in ("alice", "bob")
    ]
    assert import_lessons(LessonFile(file(*lines), "thumbs"), Destination(project, "f")).new == 2


def test_contradicting_line_of_the_same_author_is_rejected(project, file):
    lines = [{"prompt": "a", "completion": "b", "label": label} for label in (True, False)]
    assert refused(file(*lines), "thumbs", Destination(project, "f")) == [
        "2: contradicts another line of the same author with is_up True"
    ]


def test_author_who_is_not_a_member_becomes_an_imported_rater(project, carol, file):
    lines = [{"prompt": "a", "answer": text, "author": "carol"} for text in ("b", "c")]
    path = file(*lines)
    assert import_lessons(LessonFile(path, "demonstrations"), Destination(project, "f")).raters == {
        "carol"
    }
    author = Demonstration.objects.first().author
    assert author != carol
    assert (author.username, author.author_name, author.imported_into) == (
        "lab/carol",
        "carol",
        project,
    )
    assert not author.is_active and not author.has_usable_password()
    assert (
        import_lessons(LessonFile(path, "demonstrations"), Destination(project, "f")).existing == 2
    )
    assert project.imported_raters.count() == 1


def test_simulated_author_is_not_matched_to_a_member_of_the_same_name(project, bob, file):
    exported = {"run": "r", "taskset": None, "task": None, "author": "bob", "is_simulated": True}
    line = {"prompt": "a", "chosen": "b", "rejected": "c", **exported}
    import_lessons(LessonFile(file(line), "preferences"), Destination(project, "f"))
    author = Preference.objects.get().author
    assert author != bob and author.is_simulated


def test_too_long_author_name_is_rejected(project, file):
    line = {"prompt": "a", "answer": "b", "author": "x" * 147}
    assert refused(file(line), "demonstrations", Destination(project, "f")) == [
        "1: author: has 147 characters; a name has at most 146"
    ]


def test_row_with_several_lessons_creates_all_of_them(project, taskset, file):
    answers = [{"answer": text, "rank": rank} for rank, text in enumerate("abc", start=1)]
    path = file({"prompt": "54321", "answers": answers})
    outcome = import_lessons(LessonFile(path, "preferences"), Destination(project, "f", taskset))
    assert (outcome.new, outcome.layout) == (3, "Nectar: prompt and ranked answers")
    assert set(Preference.objects.values_list("task__index", "chosen", "rejected", "margin")) == {
        (1, "a", "b", 1),
        (1, "a", "c", 2),
        (1, "b", "c", 1),
    }


@pytest.mark.parametrize(
    ("kind", "line", "reason"),
    [
        ("demonstrations", "oops", "Expecting value"),
        ("demonstrations", {"prompt": "a"}, "no column 'answer'"),
        ("demonstrations", {"answer": "a"}, "no column 'prompt'"),
        ("demonstrations", {"prompt": "a", "answer": ""}, "must be a non-empty text"),
        ("demonstrations", {"task": -1, "answer": "a"}, "a whole number from 0"),
        ("demonstrations", {"task": True, "answer": "a"}, "a whole number from 0"),
        ("demonstrations", {"task": 0, "answer": "a"}, "name the taskset"),
        ("demonstrations", {"prompt": "a", "answer": "b", "author": 7}, "author: must be a name"),
        ("preferences", {"prompt": "a", "chosen": "b", "rejected": "b"}, "the same text"),
        (
            "preferences",
            {"prompt": "a", "chosen": "b", "rejected": "c", "margin": -1},
            "a number from 0",
        ),
        (
            "preferences",
            {"prompt": "a", "chosen": "b", "rejected": "c", "margin": True},
            "a number from 0",
        ),
        ("preferences", '{"prompt": "a", "chosen": "b", "rejected": "c", "margin": NaN}', "NaN"),
        (
            "thumbs",
            {"prompt": "a", "completion": "b", "label": 2},
            "must be true (good) or false (bad)",
        ),
        ("thumbs", {"prompt": "a", "completion": "b"}, "must be true (good) or false (bad)"),
    ],
)
def test_invalid_line_is_reported_with_the_reason_and_nothing_is_stored(
    project, file, kind, line, reason
):
    good = {
        "prompt": "x",
        "answer": "y",
        "chosen": "y",
        "rejected": "z",
        "completion": "y",
        "label": True,
    }
    [found] = refused(file(good, line), kind, Destination(project, "f"))
    assert found.startswith("2: ") and reason in found
    assert not any(model.objects.exists() for model in (Demonstration, Preference, Thumb))


def test_prompt_outside_the_taskset_is_rejected(project, taskset, file):
    to = Destination(project, "f", taskset)
    lines = [{"prompt": "99999", "answer": "99999"}, {"task": 4, "answer": "1"}]
    assert refused(file(*lines), "demonstrations", to) == [
        "1: prompt: no task of taskset 'sort' has this prompt",
        "2: task: taskset 'sort' has tasks 0 to 3",
    ]


def test_invalid_lines_are_written_unchanged_to_a_separate_file(project, file):
    aside = io.BytesIO()
    outcome = import_lessons(
        LessonFile(file({"prompt": "a", "answer": "b"}, " oops ", {"prompt": 3}), "demonstrations"),
        Destination(project, "f"),
        aside,
    )
    assert (outcome.new, outcome.bad) == (1, 2)
    assert aside.getvalue() == b' oops \n{"prompt": 3}\n'


def test_columns_may_have_other_names(project, file):
    columns = LessonColumns({"chosen": "better", "rejected": "worse"})
    path = file({"prompt": "a", "better": "b", "worse": "c"})
    import_lessons(LessonFile(path, "preferences", columns), Destination(project, "f"))
    assert (Preference.objects.get().chosen, Preference.objects.get().rejected) == ("b", "c")


def test_an_answer_may_be_one_assistant_message(project, file):
    said = [{"role": "assistant", "content": "hi"}]
    import_lessons(
        LessonFile(file({"prompt": "a", "answer": said}), "demonstrations"),
        Destination(project, "f"),
    )
    assert Demonstration.objects.get().answer == "hi"


def test_batches_do_not_change_what_is_stored(project, taskset, file, monkeypatch):
    monkeypatch.setattr(importing, "BATCH", 2)
    digits = ["31425", "54321", "13254", "21435"]
    lines = [
        {"prompt": d, "answer": "".join(sorted(d)) + "0" * n} for n in range(3) for d in digits
    ]
    outcome = import_lessons(
        LessonFile(file(*lines, lines[0]), "demonstrations"), Destination(project, "f", taskset)
    )
    assert (outcome.new, outcome.existing) == (12, 1)
    assert sorted(Demonstration.objects.values_list("task__index", flat=True)) == [
        0,
        0,
        0,
        1,
        1,
        1,
        2,
        2,
        2,
        3,
        3,
        3,
    ]


@given(st.binary(max_size=300))
@settings(max_examples=tries(40), deadline=None)
def test_every_line_of_any_file_is_a_lesson_or_has_a_reason(data):
    for kind in ("demonstrations", "preferences", "thumbs"):
        for line in LessonRows(iterate_records(io.BytesIO(data)), kind, LessonColumns()):
            assert isinstance(line, LessonLine) or line.reason


def test_fields_that_are_not_taken_are_counted_in_every_row(project, file):
    many = {f"field{n}": n for n in range(80)}
    path = file(*({"prompt": f"q{n}", "answer": "a", **many} for n in range(3)))
    outcome = import_lessons(LessonFile(path, "demonstrations"), Destination(project, "f"))
    assert outcome.dropped == dict.fromkeys(many, 3)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [("preferences", ("chosen", "rejected")), ("thumbs", ("completion",))],
)
def test_message_in_a_table_of_texts_is_an_answer(project, tmp_path, kind, texts):
    messages = {text: [{"role": "assistant", "content": f"The {text} one."}] for text in texts}
    row = {"prompt": [{"role": "user", "content": "Hi"}], **messages}
    path = tmp_path / "lessons.csv"
    with path.open("w") as stream:
        writer = csv.DictWriter(stream, [*row, "label"])
        writer.writeheader()
        writer.writerow({name: json.dumps(cell) for name, cell in row.items()} | {"label": "1.0"})
    import_lessons(LessonFile(path, kind), Destination(project, "f"))
    lesson = LESSONS[kind].objects.get()
    assert [getattr(lesson, text) for text in texts] == [f"The {text} one." for text in texts]
    assert lesson.prompt == row["prompt"]
