"""Answers to imitate as data sets and tools have them: the good ones are shown, and no other."""

import pytest

from apps.tasksets.layouts import (
    DEMONSTRATIONS,
    PREFERENCES,
)
from apps.tasksets.layouts.contract import NotGood
from tests.tasksets.layout_rows import (
    ANSWER,
    ASK,
    BAD,
    GOOD,
    POOR,
    PROMPT,
    SHOWN,
    USER,
    pair,
    taken,
    why,
)


@pytest.mark.parametrize("name", SHOWN)
def test_an_answer_of_each_layout_is_shown(name):
    _, [row], _ = taken(SHOWN[name], DEMONSTRATIONS)
    text = row["answer"]["content"] if isinstance(row["answer"], dict) else row["answer"]
    assert (row["prompt"], text.replace("\n", " ")) == (PROMPT, GOOD)


@pytest.mark.parametrize("name", BAD)
def test_what_people_found_bad_is_no_demonstration(name):
    with pytest.raises(NotGood):
        taken(BAD[name], DEMONSTRATIONS)


@pytest.mark.parametrize(
    "said",
    [
        {"human_feedback": "negative"},
        {"human_label": "bad"},
        {"feedback": {"rating": "bad"}},
        {"status": "rejected"},
        {"verdict": "wrong"},
        {"label": "harmful"},
        {"preferred": False},
        {"liked": False},
        {"good": 0},
        {"rejected": True},
        {"is_bad": True},
        {"flagged": True},
        {"quality": [{"user_id": "u", "value": "bad", "status": "submitted"}]},
    ],
)
def test_a_verdict_under_any_of_its_usual_names_keeps_a_bad_answer_out(said):
    assert "rated" in why({"prompt": ASK, "response": POOR} | said, DEMONSTRATIONS)


@pytest.mark.parametrize(
    "said",
    [
        {"feedback": {"rating": "good"}},
        {"status": "completed"},
        {"rejected": POOR},
        {"flagged": False},
        {"helpful": True},
    ],
)
def test_a_field_that_finds_nothing_bad_keeps_no_answer_out(said):
    _, rows, _ = taken({"prompt": ASK, "response": GOOD} | said, DEMONSTRATIONS)
    assert [row["answer"] for row in rows] == [GOOD]


def test_a_rating_on_a_scale_of_its_own_needs_a_bound():
    row = {"prompt": ASK, "response": GOOD, "rating": 4}
    assert "set the lowest rating of a good answer" in why(row, DEMONSTRATIONS)
    assert taken(row, DEMONSTRATIONS, at_least=4)[1][0]["answer"] == GOOD
    assert "below 5" in why(row, DEMONSTRATIONS, at_least=5)


def test_of_exported_groups_the_word_of_people_counts_and_that_of_machines_does_not():
    row = {
        **{"run": "r", "taskset": "t", "task": 1, "prompt": [USER], "rewards": [0.1, 0.2, 0.9]},
        "completions": [
            [ANSWER],
            [{"role": "assistant", "content": POOR}],
            [{"role": "assistant", "content": "x"}],
        ],
        "people": [1.0, 0.25, None],
    }
    name, [row_of_pair], _ = taken(row, PREFERENCES)
    assert (name, row_of_pair) == ("exported-groups", {**pair(0.75)})
    assert taken(row, DEMONSTRATIONS)[1] == [{"prompt": PROMPT, "answer": GOOD}]
    with pytest.raises(NotGood):
        taken({**row, "people": [0.5, 0.25, None]}, DEMONSTRATIONS)
