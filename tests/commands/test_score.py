"""`manage.py score` and `manage.py scorers`: a line of JSON for each line of the file, and the list
of scorers.
"""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from apps.rewards import scorers

RIGHT = {"scorer": "sort", "response": "123", "answer": {"sorted": "123"}}


@pytest.fixture
def score(tmp_path):
    def run(*lines: object) -> list[dict]:
        file = tmp_path / "lines.jsonl"
        file.write_text(
            "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        )
        out = io.StringIO()
        call_command("score", file, stdout=out)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    return run


def test_each_line_is_scored_in_the_order_of_the_file(score):
    said = score(
        RIGHT, {**RIGHT, "response": "321"}, {"scorer": "arithmetic", "response": "4", "answer": 4}
    )
    assert [line["value"] for line in said] == [1.0, 0.0, 1.0]
    assert all(line["reason"] and line["details"] for line in said)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nope", "not JSON"),
        ('{"scorer": "sort"}', "response"),
        ({**RIGHT, "scorer": "srot"}, "did you mean 'sort'?"),
        ({**RIGHT, "response": 3}, "response"),
        ({**RIGHT, "respone": ""}, "respone"),
        ({**RIGHT, "options": {"loud": True}}, "options.loud"),
        ({**RIGHT, "task": {"prompt": [1]}}, "prompt must be text"),
        ({**RIGHT, "task": {"meta": 3}}, "meta must be an object"),
        ('{"scorer": "sort", "scorer": "tone", "response": ""}', "duplicate key"),
    ],
)
def test_bad_line_gets_an_error_with_its_number_and_the_others_are_scored(score, line, told):
    first, bad, last = score(RIGHT, line, RIGHT)
    assert first["value"] == last["value"] == 1.0
    assert bad["line"] == 2 and bad["value"] is None and told in bad["error"]


def test_hostile_responses_are_scored_like_others(score):
    said = score({**RIGHT, "response": "\x00\ud800" + "9" * 100_000}, RIGHT)
    assert [line["value"] for line in said] == [0.0, 1.0]


def test_lines_of_one_group_are_scored_together(score):
    line = {"scorer": "length", "response": "", "values": {"math": 1}, "group": "a"}
    said = score(*({**line, "tokens": tokens} for tokens in (100, 200, 300)))
    assert [line["value"] for line in said] == [0.5, 0.0, -0.5]


def test_other_fields_of_the_task_serve_as_the_answer(score):
    assert (
        score({"scorer": "sort", "response": "12", "task": {"sorted": "12", "prompt": "21"}})[0][
            "value"
        ]
        == 1.0
    )


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(CommandError, match="No such file"):
        call_command("score", tmp_path / "none.jsonl")


def test_every_scorer_is_listed_with_summary_and_range():
    out = io.StringIO()
    call_command("scorers", json=True, stdout=out)
    told = {scorer["name"]: scorer for scorer in json.loads(out.getvalue())}
    assert tuple(told) == scorers.scorer_names()
    assert all(scorer["summary"] and scorer["low"] < scorer["high"] for scorer in told.values())


def test_one_scorer_is_explained_with_its_options():
    out = io.StringIO()
    call_command("scorers", "length", stdout=out)
    assert "correctness_scorer" in out.getvalue() and "whole groups" in out.getvalue()


def test_unknown_scorer_gets_the_nearest_name():
    with pytest.raises(CommandError, match="did you mean 'tone'"):
        call_command("scorers", "tune")
