"""A task's own limits are validated, at import for each line, and never exceed the run's limits."""

import io
import json

import pytest

from apps.tasksets.limits import BadLimits, Limits, limits_in
from apps.tasksets.reading import Columns, read_jsonl
from apps.tasksets.rows import TaskRow

WRONG = [
    ({"max_tokens": 0}, "meta.limits.max_tokens: must be a whole number, 1 or more, not 0"),
    ({"max_tokens": 1.5}, "meta.limits.max_tokens: must be a whole number, 1 or more, not 1.5"),
    ({"max_tokens": True}, "meta.limits.max_tokens: must be a whole number, 1 or more, not True"),
    ({"max_tokens": "9"}, "meta.limits.max_tokens: must be a whole number, 1 or more, not '9'"),
    ({"time_s": 0}, "meta.limits.time_s: must be a number of seconds above 0, not 0"),
    ({"time_s": -1.5}, "meta.limits.time_s: must be a number of seconds above 0, not -1.5"),
    ({"time_s": False}, "meta.limits.time_s: must be a number of seconds above 0, not False"),
    ({"max_token": 9}, "meta.limits.max_token: unknown limit; known are max_tokens and time_s"),
    (64, "meta.limits: must be an object with max_tokens and time_s"),
    ([], "meta.limits: must be an object with max_tokens and time_s"),
]


@pytest.mark.parametrize(("said", "why"), WRONG)
def test_invalid_limit_is_refused_with_its_field(said, why):
    with pytest.raises(BadLimits) as refused:
        limits_in({"limits": said})
    assert str(refused.value) == why


def test_both_limits_are_optional():
    assert limits_in({}) == limits_in({"limits": None}) == limits_in({"limits": {}}) == Limits()
    assert limits_in({"limits": {"max_tokens": 8, "time_s": 0.5}, "grade": 3}) == Limits(8, 0.5)


def test_tighter_of_two_limits_applies():
    assert Limits(8, None).within(Limits(64, 2.0)) == Limits(8, 2.0)
    assert Limits(99, 9.0).within(Limits(64, None)) == Limits(64, 9.0)
    assert Limits().within(Limits()) == Limits()


@pytest.mark.parametrize(
    "columns", [Columns(), Columns(meta="", more_meta=("limits",))], ids=["in meta", "in a column"]
)
def test_import_lists_a_line_with_bad_limits_and_reads_the_next(columns):
    def line(limits: object) -> str:
        said = {"meta": {"limits": limits}} if columns.meta else {"limits": limits}
        return json.dumps({"prompt": "sort 21", "answer": "12", **said})

    text = "\n".join([line({"max_tokens": 8}), line({"max_tokens": -8}), line({"time_s": 3})])
    good, bad, last = read_jsonl(io.BytesIO(text.encode()), columns)
    assert (
        isinstance(good, TaskRow)
        and good.meta == {"limits": {"max_tokens": 8}}
        and last.meta == {"limits": {"time_s": 3}}
    )
    assert (bad.number, bad.reason) == (
        2,
        "meta.limits.max_tokens: must be a whole number, 1 or more, not -8",
    )
