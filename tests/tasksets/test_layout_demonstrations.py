"""Demonstrations in the layouts of data sets and tools: only good answers are read."""

import json

import numpy
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
def test_answer_in_each_layout_is_read_as_a_demonstration(name):
    _, [row], _ = taken(SHOWN[name], DEMONSTRATIONS)
    text = row["answer"]["content"] if isinstance(row["answer"], dict) else row["answer"]
    assert (row["prompt"], text.replace("\n", " ")) == (PROMPT, GOOD)


@pytest.mark.parametrize("name", BAD)
def test_answer_that_people_rated_bad_is_not_a_demonstration(name):
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
        {"label": "0.0"},  # as pandas writes a column of 0, 1 and missing values to CSV
        {"label": "-1.0"},
        {"vote": -5},
        {"label": "Not helpful"},
        {"feedback": {"rating": "thumbsDown"}},
        {"verdict": "👎🏽"},
        {"evaluation": "very poor"},
        {"rating": "terrible"},
    ],
)
def test_bad_verdict_under_any_usual_field_name_excludes_the_answer(said):
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
def test_field_without_a_bad_verdict_does_not_exclude_the_answer(said):
    _, rows, _ = taken({"prompt": ASK, "response": GOOD} | said, DEMONSTRATIONS)
    assert [row["answer"] for row in rows] == [GOOD]


def test_rating_on_an_unknown_scale_needs_a_lowest_good_rating():
    row = {"prompt": ASK, "response": GOOD, "rating": 4}
    assert "set the lowest rating of a good answer" in why(row, DEMONSTRATIONS)
    assert taken(row, DEMONSTRATIONS, min_rating=4)[1][0]["answer"] == GOOD
    assert "below 5" in why(row, DEMONSTRATIONS, min_rating=5)


def test_human_ratings_of_exported_groups_count_and_machine_rewards_do_not():
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


@pytest.mark.parametrize(
    "said",
    [
        {"rating": "thumbsDown"},
        {"annotation": {"rating": -1}},
        {"feedback": "bad"},
        {"toxic": True},
    ],
)
def test_verdict_in_the_last_message_of_a_conversation_excludes_it(said):
    reason = why({"messages": [USER, {**ANSWER, **said}]}, DEMONSTRATIONS)
    assert reason.startswith("messages, last message: ") and "rated as bad" in reason
    assert taken({"messages": [USER, {**ANSWER, "rating": "good"}]}, DEMONSTRATIONS)[1]


def test_label_that_is_no_verdict_is_listed_as_not_taken():
    _, [row], dropped = taken({"prompt": ASK, "response": GOOD, "label": "history"}, DEMONSTRATIONS)
    assert (row["answer"], dropped) == (GOOD, {"label"})


@pytest.mark.parametrize(
    "removed", [{"deleted": True}, {"review_result": False}, {"state": "aborted_low_grade"}]
)
def test_tree_that_was_given_up_shows_nothing(removed):
    first = {"text": ASK, "role": "prompter", "replies": [{"text": GOOD, "role": "assistant"}]}
    tree = {"tree_state": removed.pop("state", "ready_for_export"), "prompt": {**first, **removed}}
    with pytest.raises(NotGood):
        taken(tree, DEMONSTRATIONS)


@pytest.mark.parametrize("write", [json.dumps, repr, lambda answer: str(numpy.array(answer))])
def test_message_that_a_table_holds_as_a_text_is_read_as_its_words(write):
    _, [row], _ = taken({"question": ASK, "response": write([ANSWER])}, DEMONSTRATIONS)
    assert row["answer"] == GOOD
    _, [row], _ = taken({"messages": write([USER, ANSWER])}, DEMONSTRATIONS)
    assert (row["prompt"], row["answer"]) == (PROMPT, GOOD)


def test_messages_in_a_form_that_cannot_be_read_are_no_prompt_and_no_answer():
    cut = json.dumps([USER, ANSWER])[:-9]
    assert "prompt: shows messages" in why({"question": cut, "answer": GOOD}, DEMONSTRATIONS)
    assert "response: shows messages" in why({"question": ASK, "response": cut}, DEMONSTRATIONS)
