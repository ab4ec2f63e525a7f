"""A task may name its scorers: read strictly, and at import by line."""

import io
import json

import pytest

from apps.tasksets.judged_by import BadJudges, Kind, find_judged_kind, named_in
from apps.tasksets.models import Task
from apps.tasksets.reading import Columns, read_jsonl

WRONG = ["math", [], ["math", "math"], [7], [""], {"math": 1}, ["x" * 61]]


@pytest.mark.parametrize("said", WRONG)
def test_what_is_no_list_of_names_is_refused_and_decides_nothing(said):
    with pytest.raises(
        BadJudges, match=r"^meta\.judged_by: must be a list of at least one scorer name"
    ):
        named_in({"judged_by": said})
    assert find_judged_kind("algebra", said) == Kind("algebra")


def test_the_names_are_kept_in_their_order():
    assert (
        named_in({"judged_by": ["math", "length"]}) == ("math", "length")
        and named_in({}) == named_in({"judged_by": None}) == ()
    )
    assert Task(domain="algebra", meta={"judged_by": ["math"]}).kind == Kind("algebra", ("math",))


def test_at_import_the_line_is_listed_and_the_next_is_read():
    lines = [
        {"prompt": "2+2", "answer": "4", "meta": {"judged_by": said}} for said in ("math", ["math"])
    ]
    bad, good = read_jsonl(io.BytesIO("\n".join(map(json.dumps, lines)).encode()), Columns())
    assert (bad.number, bad.reason) == (
        1,
        "meta.judged_by: must be a list of at least one scorer name, without duplicates",
    )
    assert good.meta == {"judged_by": ["math"]}
