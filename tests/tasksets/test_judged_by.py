"""A task may name its scorers; the names are validated, at import for each line."""

import io
import json

import pytest

from apps.tasksets.judged_by import BadJudges, Kind, find_judged_kind, named_in
from apps.tasksets.models import Task
from apps.tasksets.reading import Columns, read_jsonl

WRONG = ["math", [], ["math", "math"], [7], [""], {"math": 1}, ["x" * 61]]


@pytest.mark.parametrize("said", WRONG)
def test_judged_by_that_is_not_a_list_of_names_is_refused_and_ignored(said):
    with pytest.raises(
        BadJudges, match=r"^meta\.judged_by: must be a list of at least one scorer name"
    ):
        named_in({"judged_by": said})
    assert find_judged_kind("algebra", said) == Kind("algebra")


def test_judged_by_names_keep_their_order():
    assert (
        named_in({"judged_by": ["math", "length"]}) == ("math", "length")
        and named_in({}) == named_in({"judged_by": None}) == ()
    )
    assert Task(domain="algebra", meta={"judged_by": ["math"]}).kind == Kind("algebra", ("math",))


def test_import_lists_a_line_with_bad_judged_by_and_reads_the_next():
    lines = [
        {"prompt": "2+2", "answer": "4", "meta": {"judged_by": said}} for said in ("math", ["math"])
    ]
    bad, good = read_jsonl(io.BytesIO("\n".join(map(json.dumps, lines)).encode()), Columns())
    assert (bad.number, bad.reason) == (
        1,
        "meta.judged_by: must be a list of at least one scorer name, without duplicates",
    )
    assert good.meta == {"judged_by": ["math"]}
