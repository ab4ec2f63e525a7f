"""JSON lines become tasks, or bad lines with number and reason; no line stops the reader."""

import io
import json
import tracemalloc

import pytest

from apps.tasksets.reading import Columns, read_jsonl
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources.records import MAX_LINE_BYTES, BadLine

GOOD = b'{"prompt": "2+2", "answer": 4}'


def read(text: bytes, **columns) -> list[TaskRow | BadLine]:
    return list(read_jsonl(io.BytesIO(text), Columns(**columns)))


def test_a_text_prompt_becomes_a_user_message_and_a_plain_answer_a_value():
    assert read(GOOD) == [TaskRow([{"role": "user", "content": "2+2"}], {"value": 4})]


def test_messages_and_answer_objects_are_kept_unchanged():
    messages = [{"role": "system", "content": "add"}, {"role": "user", "content": "2+2"}]
    line = json.dumps({"question": messages, "truth": {"value": 4, "unit": "m"}}).encode()
    assert read(line, prompt="question", answer="truth") == [
        TaskRow(messages, {"value": 4, "unit": "m"})
    ]


def test_byte_order_mark_carriage_returns_and_blank_lines_are_ignored():
    assert len(read(b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n  \n" + GOOD)) == 2


def test_file_without_answers_is_read_when_the_answer_column_is_none():
    assert read(b'{"prompt": "hello"}', answer=None) == [
        TaskRow([{"role": "user", "content": "hello"}])
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "Expecting"),
        (b"[1]", "not a JSON object"),
        (b'{"prompt": "a", "answer": NaN}', "NaN"),
        (b'{"prompt": "a", "answer": -Infinity}', "Infinity"),
        (b'{"prompt": "a", "answer": 1e999}', "too large"),
        (b'{"prompt": "a", "prompt": "b", "answer": 1}', "duplicate key 'prompt'"),
        (b'{"prompt": "a\\u0000b", "answer": 1}', "NUL"),
        (b'{"prompt": "a", "answer": {"k\\u0000": 1}}', "NUL"),
        (b'{"prompt": "\\ud800", "answer": 1}', "surrogate"),
        (b'{"prompt": "a", "answer": ' + b"[" * 40 + b"]" * 40 + b"}", "nested deeper"),
        (b'{"prompt": "a", "answer": ' + b"[" * 5000, "nested too deeply"),
        (b'{"prompt": "\xff", "answer": 1}', "not UTF-8"),
        ('{"prompt": "a", "answer": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"answer": 1}', "no column 'prompt'; found answer"),
        (b'{"prompt": "a"}', "no 'answer'"),
        (b'{"prompt": "  ", "answer": 1}', "must not be empty"),
        (b'{"prompt": 7, "answer": 1}', "text or a list"),
        (b'{"prompt": [], "answer": 1}', "text or a list"),
        (
            b'{"prompt": [{"role": "critic", "content": "x"}], "answer": 1}',
            "the role must be one of",
        ),
        (b'{"prompt": [{"role": "user"}], "answer": 1}', "the content must be text"),
        (
            b'{"prompt": [{"role": "assistant", "content": "x"}], "answer": 1}',
            "must be from the user",
        ),
        (b'{"prompt": "a", "answer": 1} trailing', "Extra data"),
    ],
)
def test_a_bad_line_is_listed_with_number_and_reason_and_the_next_is_read(line, reason):
    first, bad, last = read(GOOD + b"\n" + line + b"\n" + GOOD)
    assert isinstance(first, TaskRow) and isinstance(last, TaskRow)
    assert bad.number == 2
    assert reason in bad.reason
    assert "\0" not in bad.excerpt and len(bad.excerpt) <= 120


def test_too_long_line_is_refused_in_bounded_memory():
    endless = io.BytesIO(b'{"prompt": "' + b"a" * (40 * MAX_LINE_BYTES) + b'"}\n' + GOOD)
    tracemalloc.start()
    bad, good = read_jsonl(endless, Columns())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "longer than" in bad.reason and isinstance(good, TaskRow)
    assert peak < 8 * MAX_LINE_BYTES


@pytest.mark.parametrize("extra", [0, 1, 2, 3, MAX_LINE_BYTES, MAX_LINE_BYTES + 2])
def test_lines_near_the_length_limit_keep_their_numbers(extra):
    padding = MAX_LINE_BYTES - len(GOOD) + extra
    rows = read(GOOD[:-1] + b" " * padding + b"}\n" + b"oops\n")
    assert isinstance(rows[0], TaskRow) == (extra == 0)
    assert rows[1].number == 2
