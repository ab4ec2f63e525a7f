"""Judged answers in the layouts of data sets and tools are read into our columns."""

import json

import pytest

from apps.tasksets.layouts import (
    DEMONSTRATIONS,
    THUMBS,
)
from apps.tasksets.layouts.contract import NotGood
from tests.tasksets.layout_rows import ANSWER, ASK, GOOD, PROMPT, USER, taken, why

JUDGED = {
    "own-thumbs": {"prompt": [USER], "completion": [ANSWER], "label": True},
    "kto-conversations": {"messages": json.dumps([USER, ANSWER]), "label": "1"},
    "kto-alpaca": {"instruction": ASK, "input": "", "output": GOOD, "kto_tag": True},
    "kto": {"question": ASK, "response": GOOD, "label": "good"},
    "helpsteer": {
        "prompt": ASK,
        "response": GOOD,
        "helpfulness": 3,
        "correctness": 0,
        "coherence": 0,
    },
    "argilla": {
        "fields": {"prompt": ASK, "response": GOOD},
        "responses": {"q": [{"value": "yes", "user_id": "u"}]},
    },
}


@pytest.mark.parametrize("name", JUDGED)
def test_judged_answer_in_each_layout_is_read_as_a_thumb(name):
    found, [row], _ = taken(JUDGED[name], THUMBS)
    text = (
        row["completion"] if isinstance(row["completion"], str) else row["completion"][0]["content"]
    )
    assert (found, row["prompt"], text, row["label"]) == (name, PROMPT, GOOD, True)


def generated(*verdicts: object, **more: object) -> dict:
    texts = [f"It is {number}." for number in range(len(verdicts))]
    said = {"generations": texts, "correctness_math_verify": list(verdicts)}
    return {"problem": ASK, "answer": "0", **said, **more}


def test_wrong_unchecked_and_truncated_answers_are_never_demonstrations():
    row = generated(
        True,
        False,
        True,
        None,
        True,
        correctness_llama=[None, True, False, None, True],
        is_reasoning_complete=[True, True, True, True, False],
    )
    _, rows, dropped = taken(row, DEMONSTRATIONS)
    assert [one["answer"] for one in rows] == ["It is 0."]
    assert dropped == {
        "answer",
        "generations about which the checks disagree",
        "generations that are cut off",
        "generations that were not checked",
    }
    with pytest.raises(NotGood, match="every answer is wrong"):
        taken(generated(False, False), DEMONSTRATIONS)
    assert "no complete answer has a clear verdict" in why(generated(None), DEMONSTRATIONS)


def test_each_checked_answer_is_read_as_a_thumb():
    _, rows, _ = taken(generated(True, False), THUMBS)
    assert [(one["completion"], one["label"]) for one in rows] == [
        ("It is 0.", True),
        ("It is 1.", False),
    ]


@pytest.mark.parametrize("verdicts", [[True], "yes", [1, 0]])
def test_verdicts_that_do_not_match_the_number_of_answers_are_reported(verdicts):
    row = generated(True, False, correctness_llama=verdicts)
    assert "correctness_llama: must be 2 times true or false" in why(row, DEMONSTRATIONS)


def test_alternating_texts_are_read_as_a_conversation():
    _, [row], dropped = taken({"id": "0", "data": [ASK, GOOD, "And you?", "Well."]}, DEMONSTRATIONS)
    assert row["prompt"] == [USER, ANSWER, {"role": "user", "content": "And you?"}]
    assert (row["answer"], dropped) == ("Well.", {"id"})
    assert "ends with a text of the user" in why({"data": [ASK, GOOD, ASK]}, DEMONSTRATIONS)


def prm(*steps: dict, finish: str = "solution") -> dict:
    return {
        "labeler": "w-1",
        "question": {"problem": ASK},
        "label": {"steps": list(steps), "finish_reason": finish},
    }


def tried(*ratings: int | None, chosen: int | None = None, human: str | None = None) -> dict:
    texts = [{"text": f"step {n}", "rating": rating} for n, rating in enumerate(ratings)]
    written = None if human is None else {"text": human, "rating": None}
    return {"completions": texts, "chosen_completion": chosen, "human_completion": written}


def test_step_written_by_a_person_replaces_the_generated_steps():
    _, [row], dropped = taken(prm(tried(-1, human="written"), tried(1, chosen=0)), THUMBS)
    assert (row["completion"], row["label"], row["author"]) == ("written\nstep 0", True, "w-1")
    assert "label.steps[].completions that were not chosen" in dropped


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (prm(tried(None), finish="give_up"), "incomplete"),
        (prm(tried(None), finish="bad_problem"), "incomplete"),
        (prm(tried(None)), "the chosen step has no rating"),
        (prm(tried(1, chosen=4)), "chosen_completion: is 4, but there are 1"),
        (prm(tried(5)), "must be -1, 0 or 1"),
        (prm(tried(1, chosen=0), finish="found_error"), "found_error"),
    ],
)
def test_unfinished_or_unjudged_answer_is_left_out(row, reason):
    assert reason in why(row, THUMBS)
    assert reason in why(row, DEMONSTRATIONS)


def test_answer_with_a_bad_step_is_a_thumb_down_and_not_a_demonstration():
    row = prm(tried(1, chosen=0), tried(-1), finish="found_error")
    assert taken(row, THUMBS)[1][0]["label"] is False
    assert "not a demonstration" in why(row, DEMONSTRATIONS)
