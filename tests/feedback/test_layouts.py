"""Layouts of data sets on the Hub are converted to our columns, or rejected by field."""

import io
import json

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest

from apps.feedback.reading import LessonColumns, LessonLine, LessonRows
from apps.tasksets.sources.apart import records_of_file
from apps.tasksets.sources.jsonl import iterate_records
from apps.tasksets.sources.records import NotReadable

ASK = "How are you?"
GOOD = "Well, thank you."
POOR = "Go away."
USER = {"role": "user", "content": ASK}


def said(role: str, content: str) -> dict:
    return {"role": role, "content": content}


def lines(kind: str, *rows: dict) -> list:
    stream = io.BytesIO(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return list(LessonRows(iterate_records(stream), kind, LessonColumns()))


def lesson(kind: str, row: dict) -> LessonLine:
    [line] = lines(kind, row)
    assert isinstance(line, LessonLine), line.reason
    return line


def why(kind: str, row: dict) -> str:
    [line] = lines(kind, row)
    return line.reason


PAIRS = {
    "ultrafeedback_binarized": {
        "prompt": ASK,
        "prompt_id": "x",
        "messages": [USER, said("assistant", GOOD)],
        "score_chosen": 8.5,
        "score_rejected": 6.0,
        "chosen": [USER, said("assistant", GOOD)],
        "rejected": [USER, said("assistant", POOR)],
    },
    "argilla dpo mix": {
        "dataset": "capybara",
        "chosen": [USER, said("assistant", GOOD)],
        "rejected": [USER, said("assistant", POOR)],
        "chosen_rating": 5,
        "rejected_rating": 2.5,
    },
    "hh-rlhf": {
        "chosen": f"\n\nHuman: {ASK}\n\nAssistant: {GOOD}",
        "rejected": f"\n\nHuman: {ASK}\n\nAssistant: {POOR}",
        "margin": 2.5,
    },
    "TRL, with a prompt of messages": {
        "prompt": [USER],
        "chosen": [said("assistant", GOOD)],
        "rejected": [said("assistant", POOR)],
        "margin": 2.5,
    },
    "scores beside texts": {
        "prompt": ASK,
        "chosen": GOOD,
        "rejected": POOR,
        "score_chosen": 3.5,
        "score_rejected": 1,
    },
}
SHOWN = {
    "messages": {"messages": [USER, said("assistant", GOOD)]},
    "sharegpt": {
        "conversations": [
            {"from": "human", "value": ASK},
            {"from": "gpt", "value": GOOD, "weight": None},
        ]
    },
    "alpaca": {"instruction": ASK, "input": "", "output": GOOD},
    "response": {"prompt": ASK, "response": GOOD, "task": "chat", "author": "somebody"},
    "TRL, prompt and completion": {"prompt": [USER], "completion": [said("assistant", GOOD)]},
}


@pytest.mark.parametrize("name", PAIRS)
def test_pair_of_each_layout_becomes_the_same_preference(name):
    line = lesson("preferences", PAIRS[name])
    assert (line.prompt, line.fields) == ([USER], {"chosen": GOOD, "rejected": POOR, "margin": 2.5})


@pytest.mark.parametrize("name", SHOWN)
def test_answer_of_each_layout_becomes_the_same_demonstration(name):
    line = lesson("demonstrations", SHOWN[name])
    assert (line.prompt, line.fields, line.task, line.author) == (
        [USER],
        {"answer": GOOD},
        None,
        None,
    )


def test_kto_rows_become_thumbs():
    line = lesson(
        "thumbs", {"prompt": [USER], "completion": [said("assistant", GOOD)], "label": True}
    )
    assert line.fields == {"completion": GOOD, "is_up": True}


@pytest.mark.parametrize(("labels", "is_up"), [([True, True], True), ([True, False], False)])
def test_labelled_steps_become_a_thumb_that_is_down_if_one_step_is_bad(labels, is_up):
    line = lesson("thumbs", {"prompt": ASK, "completions": ["first", "second"], "labels": labels})
    assert line.fields == {"completion": "first\nsecond", "is_up": is_up}


def test_prm800k_uses_the_steps_that_were_chosen():
    tried = [{"text": "wrong", "rating": -1}, {"text": "right", "rating": 1}]
    steps = [
        {"completions": tried, "chosen_completion": 1},
        {"completions": [{"text": "done", "rating": 0}], "chosen_completion": None},
    ]
    line = lesson("thumbs", {"question": {"problem": ASK}, "label": {"steps": steps}})
    assert (line.prompt, line.fields) == ([USER], {"completion": "right\ndone", "is_up": True})


def test_conversation_keeps_all_turns_before_the_last_answer():
    turns = [
        said("system", "Be kind."),
        USER,
        said("assistant", GOOD),
        said("user", "And now?"),
        said("assistant", "Still."),
    ]
    line = lesson("demonstrations", {"messages": turns})
    assert (line.prompt, line.fields) == (turns[:-1], {"answer": "Still."})


def test_missing_or_invalid_part_of_a_layout_is_reported_with_its_field():
    two = [USER, said("assistant", GOOD)]
    assert "rejected: the conversation differs" in why(
        "preferences", {"chosen": two, "rejected": [said("user", "Else?"), said("assistant", POOR)]}
    )
    assert "chosen[1]: the role must be" in why(
        "preferences", {"chosen": [USER, said("critic", "no")], "rejected": two}
    )
    assert "chosen_rating: is 1, lower than rejected_rating (4)" in why(
        "preferences",
        {
            "chosen": two,
            "rejected": [USER, said("assistant", POOR)],
            "chosen_rating": 1,
            "rejected_rating": 4,
        },
    )
    assert "messages: must end with an answer of the assistant" in why(
        "demonstrations", {"messages": [USER]}
    )
    assert "labels: must be 2 times true or false" in why(
        "thumbs", {"prompt": ASK, "completions": ["a", "b"], "labels": [True]}
    )
    assert "chosen: a transcript begins" not in why(
        "preferences", {"chosen": "plain", "rejected": "other"}
    )


def test_parquet_rows_are_read_like_json_lines(tmp_path):
    rows = [PAIRS["ultrafeedback_binarized"] | {"prompt_id": str(n)} for n in range(2_500)]
    pq.write_table(arrow.Table.from_pylist(rows), tmp_path / "pairs.parquet", row_group_size=700)
    found = list(
        LessonRows(records_of_file(tmp_path / "pairs.parquet"), "preferences", LessonColumns())
    )
    assert [line.number for line in found] == list(range(1, 2_501))
    assert {line.fields["margin"] for line in found} == {2.5}


def test_damaged_parquet_file_is_rejected_with_a_message(tmp_path):
    (tmp_path / "pairs.parquet").write_bytes(b"PAR1" + b"\0" * 40)
    with pytest.raises(NotReadable, match="not a readable"):
        list(records_of_file(tmp_path / "pairs.parquet"))
