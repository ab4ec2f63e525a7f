"""Pairs of answers in the layouts of data sets and tools are read into our columns."""

import pytest

from apps.tasksets.layouts import (
    DEMONSTRATIONS,
    PREFERENCES,
)
from tests.tasksets.layout_rows import (
    ANSWER,
    ASK,
    GOOD,
    PAIRS,
    POOR,
    PROMPT,
    USER,
    pair,
    taken,
    why,
)

WITHOUT_MARGIN = (
    "picked-response",
    *("shp", "argilla", "label-studio", "openai-preferences", "rejected-response"),
)


@pytest.mark.parametrize("name", PAIRS)
def test_pair_in_each_layout_is_recognised_and_read(name):
    found, [row], _ = taken(PAIRS[name], PREFERENCES)
    assert found == name
    chosen = row["chosen"][0]["content"] if isinstance(row["chosen"], list) else row["chosen"]
    assert (row["prompt"], chosen, row["rejected"]) == (PROMPT, GOOD, POOR)
    assert row.get("margin") == (None if name in WITHOUT_MARGIN else 2)


def test_every_two_answers_with_different_scores_form_a_pair():
    answers = [
        {"response": text, "overall_score": score} for text, score in (("a", 3), ("b", 5), ("c", 5))
    ]
    _, rows, _ = taken({"instruction": ASK, "completions": answers}, PREFERENCES)
    assert [(row["chosen"], row["rejected"], row["margin"]) for row in rows] == [
        ("b", "a", 2),
        ("c", "a", 2),
    ]


def oasst(text: str, role: str, *replies: dict, **more: object) -> dict:
    return {"text": text, "role": role, "replies": list(replies), **more}


TREE = {
    "message_tree_id": "x",
    "prompt": oasst(
        ASK,
        "prompter",
        oasst(
            GOOD,
            "assistant",
            oasst("And now?", "prompter", oasst("Still.", "assistant", rank=0)),
            rank=0,
        ),
        oasst(POOR, "assistant", rank=1),
        oasst("spam", "assistant", rank=2, deleted=True),
    ),
}


def test_tree_becomes_pairs_of_ranked_answers_and_demonstrations_of_the_best():
    _, [row], dropped = taken(TREE, PREFERENCES)
    assert (row["prompt"], row["chosen"], row["rejected"]) == (PROMPT, GOOD, POOR)
    assert "replies that were deleted or rejected in review" in dropped
    _, rows, _ = taken(TREE, DEMONSTRATIONS)
    later = [USER, ANSWER, {"role": "user", "content": "And now?"}]
    assert [(one["prompt"], one["answer"]) for one in rows] == [(PROMPT, GOOD), (later, "Still.")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            {"prompt": ASK, "response_1": GOOD, "response_2": POOR, "preference_strength": 0},
            "neither response is preferred",
        ),
        (
            {
                "prompt": ASK,
                "chosen": GOOD,
                "rejected": POOR,
                "score_chosen": 1,
                "score_rejected": 4,
            },
            "it is unclear which answer is better",
        ),
        (
            {"history": ASK, "human_ref_A": POOR, "human_ref_B": GOOD, "labels": 7},
            "labels: must be 1",
        ),
        (
            {
                "instruction": ASK,
                "completions": [
                    {"response": "a", "overall_score": 4},
                    {"response": "b", "overall_score": 4},
                ],
            },
            "no two answers have different ratings",
        ),
    ],
)
def test_undecided_pair_is_refused_with_a_reason(row, reason):
    assert reason in why(row, PREFERENCES)


QUESTIONS = [USER, ANSWER], [USER, {"role": "assistant", "content": POOR}]
ARENA = {"conversation_a": QUESTIONS[1], "conversation_b": QUESTIONS[0], "model_a": "x"}


@pytest.mark.parametrize(
    ("row", "margin"),
    [
        ({"prompt": ASK, "chosen_response": GOOD, "rejected_response": POOR}, None),
        ({"question": ASK, "response_chosen": GOOD, "response_rejected": POOR}, None),
        ({"prompt": ASK, "preferred": GOOD, "dispreferred": POOR}, None),
        ({"context_messages": [USER], "chosen": GOOD, "rejected": POOR}, None),
        (
            {
                "instruction": ASK,
                "chosen_response": GOOD,
                "rejected_response": POOR,
                "chosen_avg_rating": 4.5,
                "rejected_avg_rating": 2.0,
            },
            2.5,
        ),
        (
            {
                "chosen": [USER, ANSWER],
                "rejected": QUESTIONS[1],
                "chosen-rating": 5.0,
                "rejected-rating": 1.0,
            },
            4.0,
        ),
        (ARENA | {"winner": "model_b"}, None),
        ({"prompt": ASK, "response_a": GOOD, "response_b": POOR, "winner": "a"}, None),
        ({"prompt": ASK, "response_a": POOR, "response_b": GOOD, "winner": "response_b"}, None),
        (
            {"question": {"full_text": ASK}, "answer_0": GOOD, "answer_1": POOR}
            | {"score_0": 1, "score_1": -1},
            None,
        ),
        ({"question": ASK, "response_j": GOOD, "response_k": POOR}, None),
        ({"prompt": ASK, "chosen": GOOD, "reject": POOR}, None),
        ({"Prompt": ASK, "Chosen": GOOD, "Rejected": POOR}, None),
    ],
)
def test_pair_is_read_under_alternative_field_names(row, margin):
    _, (read,), _ = taken(row, PREFERENCES)
    told = {name: read[name] for name in ("prompt", "chosen", "rejected")}
    assert (told, read.get("margin")) == (pair(), margin)


def test_tie_between_two_models_is_not_a_pair():
    assert "neither answer is preferred" in why(ARENA | {"winner": "tie"}, PREFERENCES)


@pytest.mark.parametrize(
    "said",
    [{"winner": "tie"}, {"better_response_id": 2}, {"score_a": 1, "score_b": 1}],
)
def test_two_answers_without_a_better_one_are_not_a_pair(said):
    row = {"prompt": ASK, "response_a": GOOD, "response_b": POOR} | said
    assert "neither answer is preferred" in why(row, PREFERENCES)


def test_transcript_prompt_is_read_as_turns():
    row = {"prompt": f"\n\nHuman: {ASK}\n\nAssistant:", "chosen": GOOD, "rejected": POOR}
    assert taken(row, PREFERENCES)[1] == [pair()]


def test_ratings_of_two_scales_are_not_compared():
    fine = {"response": POOR, "fine-grained_score": 4.5}
    both = {
        "response": GOOD,
        "overall_score": 6,
        "fine-grained_score": 5,
        "custom_system_prompt": "S",
    }
    row = {"instruction": ASK, "completions": [both, fine]}
    _, [read], dropped = taken(row, PREFERENCES)
    assert (read["chosen"], read["margin"]) == (GOOD, 0.5)
    assert dropped == {"completions[].custom_system_prompt"}
    assert taken(row, DEMONSTRATIONS)[1][0]["answer"] == GOOD
    unrated = {"instruction": ASK, "completions": [both, {"response": POOR}]}
    assert why(unrated, PREFERENCES) == "completions[1].overall_score: must be a number"
