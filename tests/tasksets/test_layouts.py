"""Rows as data sets and tools have them: recognised by name, read into our columns, and nothing
of them lost in silence."""

import json
from pathlib import Path

import pytest

from apps.tasksets.layouts import (
    BY_NAME,
    DEMONSTRATIONS,
    LAYOUTS,
    PREFERENCES,
    TASKS,
    THUMBS,
    NotThisLayout,
    RowReading,
    read_row,
    recognised,
)
from apps.tasksets.layouts.contract import NotGood

ASK = "How are you?"
GOOD = "Well, thank you."
POOR = "Go away."
SYSTEM = {"role": "system", "content": "Be kind."}
USER = {"role": "user", "content": ASK}
ANSWER = {"role": "assistant", "content": GOOD}
PROMPT = [USER]


def said(who: str, words: object) -> dict:
    return {"from": who, "value": words}


def taken(row: dict, kind: str, at_least: float | None = None) -> tuple[str, list[dict], set[str]]:
    """Return the layout's name, the rows in our columns, and what is not taken."""
    layout = recognised([row], kind)
    taking = RowReading(at_least)
    rows = read_row(layout, row, kind, taking)
    return layout.name if layout else "", rows, taking.dropped


def why(row: dict, kind: str, at_least: float | None = None) -> str:
    with pytest.raises(NotThisLayout) as refusal:
        taken(row, kind, at_least)
    return str(refusal.value)


def pair(margin: float | None = None, prompt: list = PROMPT) -> dict:
    return {"prompt": prompt, "chosen": GOOD, "rejected": POOR} | (
        {} if margin is None else {"margin": margin}
    )


# -- preferences -----------------------------------------------------------------------------------

PAIRS = {
    "pairs-of-conversations": {
        "chosen": [USER, ANSWER],
        "rejected": [USER, {"role": "assistant", "content": POOR}],
        "score_chosen": 8,
        "score_rejected": 6,
    },
    "hh-rlhf": {
        "chosen": f"\n\nHuman: {ASK}\n\nAssistant: {GOOD}",
        "rejected": f"\n\nHuman: {ASK}\n\nAssistant: {POOR}",
        "margin": 2,
    },
    "pair-behind-conversation": {
        "conversations": [said("human", ASK)],
        "chosen": said("gpt", GOOD),
        "rejected": said("gpt", POOR),
        "margin": 2,
    },
    "openai-preferences": {
        "input": {"messages": [USER], "tools": [], "parallel_tool_calls": True},
        "preferred_output": [ANSWER],
        "non_preferred_output": [{"role": "assistant", "content": POOR}],
    },
    "rejected-response": {"messages": [USER, ANSWER], "rejected_response": POOR},
    "alpaca-ranking": {"instruction": ASK, "input": "", "output": [GOOD, POOR], "margin": 2},
    "pair": {"question": ASK, "chosen": GOOD, "rejected": POOR, "margin": 2},
    "own-preferences": {
        "prompt": ASK,
        "chosen": [ANSWER],
        "rejected": POOR,
        "chosen_rating": 5,
        "rejected_rating": 3,
    },
    "ultrafeedback": {
        "instruction": ASK,
        "completions": [
            {"response": POOR, "overall_score": 6},
            {"response": GOOD, "overall_score": 8},
        ],
    },
    "nectar": {
        "prompt": f"\n\nHuman: {ASK}\n\nAssistant: ",
        "answers": [{"answer": POOR, "rank": 3}, {"answer": GOOD, "rank": 1}],
    },
    "shp": {"history": ASK, "human_ref_A": POOR, "human_ref_B": GOOD, "labels": 0},
    "helpsteer-preference": {
        "prompt": ASK,
        "response_1": GOOD,
        "response_2": POOR,
        "preference_strength": -2,
    },
    "argilla": {
        "fields": {"prompt": ASK, "response1": POOR, "response2": GOOD},
        "responses": {"which": [{"value": "response2", "user_id": "u-1"}]},
    },
    "label-studio": {
        "data": {"prompt": ASK, "answer1": GOOD, "answer2": POOR},
        "annotations": [
            {
                "completed_by": {"email": "ann@example.org"},
                "result": [{"type": "pairwise", "from_name": "pw", "value": {"selected": "left"}}],
            }
        ],
    },
}


PAIRS["picked-response"] = {
    "prompt": ASK,
    "response_0": POOR,
    "response_1": GOOD,
    "better_response_id": 1,
}
WITHOUT_MARGIN = (
    "picked-response",
    *("shp", "argilla", "label-studio", "openai-preferences", "rejected-response"),
)


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_of_each_layout_is_recognised_and_read(name):
    found, [row], _ = taken(PAIRS[name], PREFERENCES)
    assert found == name
    chosen = row["chosen"][0]["content"] if isinstance(row["chosen"], list) else row["chosen"]
    assert (row["prompt"], chosen, row["rejected"]) == (PROMPT, GOOD, POOR)
    assert row.get("margin") == (None if name in WITHOUT_MARGIN else 2)


def test_every_two_answers_of_different_worth_are_a_pair():
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


def test_a_tree_becomes_pairs_of_ranked_answers_and_the_best_are_shown():
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
def test_a_pair_that_nobody_decided_is_named(row, reason):
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
def test_a_pair_is_read_under_the_names_that_others_give_it(row, margin):
    _, (read,), _ = taken(row, PREFERENCES)
    told = {name: read[name] for name in ("prompt", "chosen", "rejected")}
    assert (told, read.get("margin")) == (pair(), margin)


def test_a_tie_of_two_models_is_no_pair():
    assert "neither answer is preferred" in why(ARENA | {"winner": "tie"}, PREFERENCES)


@pytest.mark.parametrize(
    "said",
    [{"winner": "tie"}, {"better_response_id": 2}, {"score_a": 1, "score_b": 1}],
)
def test_two_answers_of_which_neither_is_better_are_no_pair(said):
    row = {"prompt": ASK, "response_a": GOOD, "response_b": POOR} | said
    assert "neither answer is preferred" in why(row, PREFERENCES)


def test_a_prompt_that_is_a_transcript_is_read_as_its_turns():
    row = {"prompt": f"\n\nHuman: {ASK}\n\nAssistant:", "chosen": GOOD, "rejected": POOR}
    assert taken(row, PREFERENCES)[1] == [pair()]


# -- demonstrations --------------------------------------------------------------------------------

SHOWN = {
    "alpaca": {"instruction": ASK, "input": "", "output": GOOD},
    "conversations": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": ASK}]}, ANSWER]
    },
    "own-demonstrations": {"prompt": {"role": "user", "content": ASK}, "answer": ANSWER},
    "answer": {"prompt": USER, "response": ANSWER},
    "kto": {"question": ASK, "completion": GOOD, "label": True},
    "kto-conversations": {"conversations": [said("human", ASK), said("gpt", GOOD)], "label": True},
    "own-thumbs-like": {"prompt": ASK, "completion": GOOD, "label": True},
    "helpsteer": {
        "prompt": ASK,
        "response": GOOD,
        "helpfulness": 4,
        "correctness": 4,
        "coherence": 4,
    },
    "stepwise": {"prompt": ASK, "completions": ["Well,", "thank you."], "labels": [True, True]},
    "generations": {
        "problem": ASK,
        "generations": [POOR, GOOD],
        "correctness_math_verify": [False, True],
        "messages": [USER, {"role": "assistant", "content": POOR}],
    },
    "ultrachat": {"id": "0", "data": [ASK, GOOD]},
    "aya": {"inputs": ASK, "targets": GOOD, "language": "English", "user_id": "a1"},
    "ultrafeedback": {"instruction": ASK, "completions": [{"response": GOOD, "overall_score": 8}]},
    "nectar": {
        "prompt": f"Human: {ASK}",
        "answers": [{"answer": POOR, "rank": 2}, {"answer": GOOD, "rank": 1}],
    },
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_answer_of_each_layout_is_shown(name):
    _, [row], _ = taken(SHOWN[name], DEMONSTRATIONS)
    text = row["answer"]["content"] if isinstance(row["answer"], dict) else row["answer"]
    assert (row["prompt"], text.replace("\n", " ")) == (PROMPT, GOOD)


BAD = {
    "label false": {"prompt": ASK, "completion": GOOD, "label": False},
    "label 0": {"prompt": ASK, "answer": GOOD, "label": 0},
    "label in a table of texts": {"prompt": ASK, "completion": GOOD, "label": "False"},
    "rating in a table of texts": {"prompt": ASK, "response": GOOD, "rating": "1"},
    "helpfulness in a table of texts": {"prompt": ASK, "response": GOOD, "helpfulness": "0"},
    "label in words": {"question": ASK, "response": GOOD, "label": "thumbs down"},
    "kto_tag": {"instruction": ASK, "output": GOOD, "kto_tag": False},
    "feedback": {"prompt": ASK, "response": GOOD, "feedback": "negative"},
    "conversation": {"messages": [USER, ANSWER], "label": False},
    "helpfulness": {
        "prompt": ASK,
        "response": GOOD,
        "helpfulness": 2,
        "correctness": 4,
        "coherence": 4,
    },
    "helpfulness alone": {"prompt": ASK, "response": GOOD, "helpfulness": 0},
    "a bad step": {"prompt": ASK, "completions": ["a", "b"], "labels": [True, False]},
    "unknown scale": {"prompt": ASK, "response": GOOD, "rating": 1},
    "weight": {"messages": [USER, {**ANSWER, "weight": 0}]},
    "the best is bad": {
        "instruction": ASK,
        "completions": [{"response": GOOD, "overall_score": 3}],
    },
    "argilla": {
        "fields": {"prompt": ASK, "response": GOOD},
        "responses": {"verdict": [{"value": "bad", "user_id": "u"}]},
    },
    "label studio": {
        "data": {"prompt": ASK, "response": GOOD},
        "annotations": [
            {"completed_by": 3, "result": [{"type": "choices", "value": {"choices": ["Bad"]}}]}
        ],
    },
    "export": {
        **{
            "run": "r",
            "taskset": "t",
            "task": 1,
            "form": "stars",
            "answer": '{"stars": 1}',
            "rater": "bob",
        },
        **{
            "prompt": [USER],
            "texts": [GOOD],
            "values": [0.0],
            "is_current": True,
            "is_withdrawn": False,
        },
    },
}


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


# -- thumbs ----------------------------------------------------------------------------------------

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
def test_a_judged_answer_of_each_layout_is_a_thumb(name):
    found, [row], _ = taken(JUDGED[name], THUMBS)
    text = (
        row["completion"] if isinstance(row["completion"], str) else row["completion"][0]["content"]
    )
    assert (found, row["prompt"], text, row["label"]) == (name, PROMPT, GOOD, True)


def generated(*verdicts: object, **more: object) -> dict:
    texts = [f"It is {number}." for number in range(len(verdicts))]
    said = {"generations": texts, "correctness_math_verify": list(verdicts)}
    return {"problem": ASK, "answer": "0", **said, **more}


def test_wrong_unchecked_and_cut_off_answers_are_never_shown():
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


def test_each_checked_answer_is_a_thumb():
    _, rows, _ = taken(generated(True, False), THUMBS)
    assert [(one["completion"], one["label"]) for one in rows] == [
        ("It is 0.", True),
        ("It is 1.", False),
    ]


@pytest.mark.parametrize("verdicts", [[True], "yes", [1, 0]])
def test_verdicts_that_do_not_fit_the_answers_are_named(verdicts):
    row = generated(True, False, correctness_llama=verdicts)
    assert "correctness_llama: must be 2 times true or false" in why(row, DEMONSTRATIONS)


def test_texts_by_turns_are_a_conversation():
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


def test_a_step_that_a_person_wrote_takes_the_place_of_those_that_were_tried():
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
def test_an_answer_that_nobody_finished_or_judged_is_left_out(row, reason):
    assert reason in why(row, THUMBS)
    assert reason in why(row, DEMONSTRATIONS)


def test_a_bad_step_turns_the_answer_down_and_shows_nothing():
    row = prm(tried(1, chosen=0), tried(-1), finish="found_error")
    assert taken(row, THUMBS)[1][0]["label"] is False
    assert "not a demonstration" in why(row, DEMONSTRATIONS)


# -- tasks -----------------------------------------------------------------------------------------

ASKED = {
    "gsm8k": (
        {"question": "2+2?", "answer": "It is <<2+2=4>>4.\n#### 4"},
        {"answer": "4", "meta": {"solution": "It is <<2+2=4>>4.\n#### 4"}},
    ),
    "math": (
        {
            "problem": "2+2?",
            "level": "Level 1",
            "type": "Algebra",
            "solution": "So $\\boxed{\\frac{8}{2}}$.",
        },
        {"answer": "\\frac{8}{2}"},
    ),
    "numina": (
        {"source": "olympiads", "problem": "2+2?", "solution": "Thus \\boxed{4}", "messages": []},
        {"answer": "4", "meta": {"solution": "Thus \\boxed{4}", "source": "olympiads"}},
    ),
    "deepmath": (
        {
            "question": "2+2?",
            "final_answer": "4",
            "difficulty": 3.0,
            "topic": "Algebra",
            "r1_solution_1": "…",
        },
        {"answer": "4", "meta": {"difficulty": 3.0, "topic": "Algebra"}},
    ),
    "countdown": (
        {"target": 24, "nums": [4, 6]},
        {"answer": {"target": 24, "numbers": [4, 6]}, "domain": "countdown"},
    ),
    "verl": (
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": "2+2?"}],
            "ability": "Number Theory",
            "reward_model": {"style": "rule", "ground_truth": "4"},
            "extra_info": {"index": 7, "split": None},
        },
        {
            "answer": "4",
            "domain": "number-theory",
            "meta": {"data_source": "openai/gsm8k", "extra_info": {"index": 7}},
        },
    ),
    "programs": (
        {
            "task_id": 7,
            "text": "2+2?",
            "code": "…",
            "test_list": ["assert f(3) == 6"],
            "test_setup_code": "",
        },
        {"meta": {"task_id": 7}},
    ),
    "prime": (
        {
            "prompt": "2+2?",
            "task_type": "verifiable_math",
            "verification_info": '{"ground_truth": "4"}',
        },
        {"answer": "4", "domain": "verifiable_math"},
    ),
    "verifiers": (
        {"question": "2+2?", "answer": "4", "info": {"hint": "add"}, "task": "sums"},
        {"answer": "4", "domain": "sums", "meta": {"info": {"hint": "add"}}},
    ),
    "orz": (
        {
            "0": said("human", "2+2?"),
            "1": {"from": "assistant", "ground_truth": {"value": "4", "pass_at_n": None}},
        },
        {"answer": "4"},
    ),
    "aya-tasks": (
        {"inputs": "2+2?", "targets": "4", "language": "English", "language_code": "eng"},
        {"answer": "4", "meta": {"language": "English", "language_code": "eng"}},
    ),
    "openrlhf": (
        {"context_messages": [{"role": "user", "content": "2+2?"}], "label": "4"},
        {"answer": "4"},
    ),
    "task-conversations": (
        {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]},
        {"answer": "4"},
    ),
    "question": ({"instruction": "2+2?", "input": "", "output": "4"}, {"answer": "4"}),
    "own-tasks": (
        {"prompt": "2+2?", "answer": {"value": 4}, "meta": {"a": 1}},
        {"answer": {"value": 4}, "meta": {"a": 1}},
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_task_of_each_layout_is_recognised_and_read(name):
    row, expected = ASKED[name]
    found, [task], _ = taken(row, TASKS)
    assert found == name
    assert {key: task[key] for key in expected} == expected
    if name not in ("countdown", "programs"):
        assert task["prompt"] == [{"role": "user", "content": "2+2?"}]


@pytest.mark.parametrize("four", [[{"role": "assistant", "content": "4"}], said("gpt", "4")])
def test_an_answer_in_a_message_is_its_text(four):
    sums = {"prompt": [{"role": "user", "content": "2+2?"}], "completion": four}
    assert taken(sums, TASKS)[1][0]["answer"] == "4"
    assert taken({**sums, "completion": json.dumps(four)}, TASKS)[1][0]["answer"] == "4"
    two = {**sums, "completion": [ANSWER, ANSWER]}
    assert "completion: must be text or a single message" in why(two, TASKS)


def test_an_answer_that_was_marked_as_bad_is_no_right_answer():
    sums = {"prompt": "2+2?", "completion": "4"}
    assert taken({**sums, "label": True}, TASKS)[1][0]["answer"] == "4"
    reason = why({**sums, "label": False}, TASKS)
    assert reason == "label: is false, so the text in completion is not the correct answer"
    assert taken({"question": "Is 2 even?", "label": False}, TASKS)[1][0]["answer"] == [
        "no",
        "false",
    ]


def test_fields_that_are_only_looked_at_are_told_as_not_taken():
    row = {"question": "2+2?", "ground_truth": "4", "response": "It is 5.", "thumb": "down"}
    _, [task], dropped = taken(row, TASKS)
    assert (task["answer"], dropped) == ("4", {"response", "thumb"})


def test_a_prompt_that_does_not_name_the_function_shows_a_test_or_the_code_to_begin_with():
    mbpp = {
        "text": "Double a number.",
        "test_list": ["assert twice(3) == 6", "assert twice(4) == 8"],
    }
    [task] = taken(mbpp, TASKS)[1]
    shown = "Double a number.\n\nIt must pass this test:\n```python\nassert twice(3) == 6\n```"
    assert task["prompt"][0]["content"] == shown
    assert [test["check"] for test in task["answer"]["tests"]] == mbpp["test_list"]
    starter = "def twice(n):\n    "
    [task] = taken({**mbpp, "starter_code": starter}, TASKS)[1]
    assert task["prompt"][0]["content"].endswith("Begin with:\n```python\ndef twice(n):\n```")
    human = {
        "prompt": "def twice(n):\n",
        "test": "def check(f):\n    assert f(3) == 6\n",
        "entry_point": "twice",
    }
    assert taken(human, TASKS)[1][0]["prompt"] == [{"role": "user", "content": human["prompt"]}]


def test_tests_that_cannot_be_read_are_named():
    assert "input_output" in why({"question": "Sum.", "input_output": "{"}, TASKS)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            {"problem": "Show it.", "solution": "…", "answer": "proof", "source": "x"},
            "cannot be used as a reference answer",
        ),
        ({"problem": "2+2?", "solution": "It is 4.", "level": "Level 1"}, "no \\boxed answer"),
        ({"prompt": "2+2?", "reward_model": {"style": "rule"}}, "ground_truth: must be"),
        ({"messages": [USER]}, "ends with the user"),
    ],
)
def test_a_task_without_a_right_answer_is_named(row, reason):
    assert reason in why(row, TASKS)


def test_a_row_of_another_layout_than_its_file_is_not_read_by_guess():
    with pytest.raises(NotThisLayout, match="must end with ####"):
        BY_NAME["gsm8k"].reads[TASKS]({"question": "2+2?", "answer": "4"}, RowReading())
    rows = [ASKED["gsm8k"][0]] * 3 + [{"question": "2+2?", "answer": "4"}]
    assert recognised(rows, TASKS).name == "gsm8k"


@pytest.mark.parametrize(
    ("row", "letter"),
    [
        ({"question": ASK, "choices": [GOOD, POOR], "answer": 1, "subject": "manners"}, "B"),
        (
            {
                "question": ASK,
                "choices": {"text": [GOOD, POOR], "label": ["1", "2"]},
                "answerKey": "2",
            },
            "B",
        ),
        (
            {
                "question_stem": ASK,
                "choices": {"text": [GOOD, POOR], "label": ["A", "B"]},
                "answerKey": "A",
            },
            "A",
        ),
        (
            {
                "question": {"stem": ASK},
                "choices": [{"label": "A", "text": GOOD}, {"label": "B", "text": POOR}],
                "answerKey": "B",
            },
            "B",
        ),
        (
            {
                "question": ASK,
                "options": [f"A){GOOD}", f"B){POOR}"],
                "correct": "B",
                "rationale": "x",
            },
            "B",
        ),
        ({"question": ASK, "options": {"A": GOOD, "B": POOR}, "answer": GOOD}, "A"),
        ({"question": ASK, "options": [GOOD, POOR], "answer": "B", "answer_index": 1}, "B"),
        ({"question": ASK, "choices": str([GOOD, POOR]).replace("'", '"'), "answer": "0"}, "A"),
    ],
)
def test_a_question_with_choices_shows_them_and_asks_for_a_letter(row, letter):
    name, (task,), _ = taken(row, TASKS)
    assert (name, task["prompt"]) == (
        "choices",
        [{"role": "user", "content": f"{ASK}\n\nA. {GOOD}\nB. {POOR}"}],
    )
    assert task["answer"] == {"value": letter, "choices": {"A": GOOD, "B": POOR}}


@pytest.mark.parametrize(
    "row",
    [
        {"Question": ASK, "Correct Answer": GOOD, "Incorrect Answer 1": POOR, "Subdomain": "x"},
        {"question": ASK, "correct_answer": GOOD, "distractor1": POOR, "support": "Be kind."},
        {"question": ASK, "correct_answer": GOOD, "incorrect_answers": [POOR], "type": "multiple"},
    ],
)
def test_answers_in_columns_of_their_own_are_mixed_the_same_way_each_time(row):
    name, (task,), dropped = taken(row, TASKS)
    assert name == "answers-apart"
    assert task["answer"]["choices"][task["answer"]["value"]] == GOOD
    assert sorted(task["answer"]["choices"].values()) == sorted([GOOD, POOR])
    assert taken(row, TASKS)[1] == [task]
    assert dropped == row.keys() & {"support", "type"}


def test_the_right_answer_of_several_columns_stands_at_any_letter():
    wrong = {f"Incorrect Answer {number}": f"No {number}." for number in (1, 2, 3)}
    rows = [{"Question": f"{n}?", "Correct Answer": GOOD, **wrong} for n in range(40)]
    assert {taken(row, TASKS)[1][0]["answer"]["value"] for row in rows} == set("ABCD")


def test_two_answers_to_choose_from_that_are_the_same_are_refused():
    row = {"Question": ASK, "Correct Answer": GOOD, "Incorrect Answer 1": f"{GOOD} "}
    assert why(row, TASKS) == "Incorrect Answer 1: two of the answers are the same"


def test_the_ending_that_continues_a_text_is_asked_for_by_its_letter():
    parts = {"ctx_a": "A man sits.", "ctx_b": "he", "ctx": "A man sits. he"}
    row = {**parts, "activity_label": "Rest", "endings": ["flies.", "sleeps."], "label": "1"}
    name, (task,), dropped = taken(row, TASKS)
    asked = "Which ending continues the text?\n\nRest: A man sits. he\n\nA. flies.\nB. sleeps."
    assert (name, task["prompt"][0]["content"]) == ("endings", asked)
    assert (task["answer"]["value"], dropped) == ("B", set())
    assert "label: must be the label" in why({**row, "label": ""}, TASKS)


def test_a_right_choice_that_is_none_of_them_is_named():
    row = {"question": ASK, "choices": [GOOD, POOR], "answer": 2}
    assert "answer: must be the label, the number from 0 or the text" in why(row, TASKS)


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"ID": "2024-I-1", "Problem": ASK, "Solution": "s", "Answer": "4"}, ASK),
        ({"Body": "Ann ran.", "Question": ASK, "Answer": "4"}, f"Ann ran.\n\n{ASK}"),
        ({"passage": "Ann ran.", "question": ASK, "answer": "4"}, f"Ann ran.\n\n{ASK}"),
        ({"question": ASK, "reference_answer": "4"}, ASK),
        ({"problem": ASK, "gt": "4"}, ASK),
    ],
)
def test_a_question_is_read_under_the_names_that_others_give_it(row, prompt):
    _, (task,), _ = taken(row, TASKS)
    assert (task["prompt"][0]["content"], task["answer"]) == (prompt, "4")


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ("Write a function to find the sum of a list.", True),
        ("Write a function `sum(a)` that adds.", False),
        ("Write a function called sum.", False),
    ],
)
def test_a_word_of_the_prompt_is_not_taken_for_the_name_of_the_function(text, shows):
    row = {"text": text, "test_list": ["assert sum([1]) == 1"]}
    _, (task,), _ = taken(row, TASKS)
    assert ("assert sum([1]) == 1" in task["prompt"][-1]["content"]) is shows


# -- what stands beside a question -----------------------------------------------------------------


def prompt_of(**more: object) -> list[dict]:
    return taken({"prompt": ASK, "chosen": GOOD, "rejected": POOR, **more}, PREFERENCES)[1][0][
        "prompt"
    ]


@pytest.mark.parametrize("name", ["system", "system_prompt", "system_message"])
def test_a_system_text_stands_before_the_question(name):
    assert prompt_of(**{name: "Be kind."}) == [SYSTEM, USER]


def test_earlier_turns_stand_before_the_question():
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    assert prompt_of(history=[["Hi", "Hello."]], system="Be kind.") == [SYSTEM, *turns, USER]
    assert prompt_of(history=json.dumps([["Hi", "Hello."]])) == [*turns, USER]


def test_tools_are_told_in_the_system_text():
    [system, _] = prompt_of(tools=json.dumps([{"name": "weather"}]), system="Be kind.")
    assert (
        system["content"].startswith("Be kind.\n\n") and '{"name": "weather"}' in system["content"]
    )


def test_pictures_of_a_column_take_the_places_that_the_text_has_for_them():
    row = {"question": "<image>Who is this?", "answer": "Bob", "images": ["one.jpg"]}
    [task] = taken(row, TASKS)[1]
    shown = {"type": "image", "path": "one.jpg"}
    assert task["prompt"][0]["content"] == [shown, {"type": "text", "text": "Who is this?"}]
    row = {
        "question": "Who is this?",
        "answer": "Bob",
        "image": {"bytes": "data:image/png;base64,AA", "path": None},
    }
    first = taken(row, TASKS)[1][0]["prompt"][0]["content"][0]
    assert first == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"images": ["a", "b"], "question": "<image>Who?"},
            "contains 2 images, but the messages have 1 placeholders",
        ),
        ({"videos": ["a"]}, "audio or video"),
        ({"images": ["a"], "image": "b"}, "keep one of the two columns"),
        ({"history": [["only one"]]}, "history: must be a list of"),
        ({"tools": "no list"}, "tools: must be a list of functions"),
        ({"system": 7}, "system: must be text"),
    ],
)
def test_what_cannot_be_put_into_the_prompt_refuses_the_row(more, reason):
    assert reason in why({"question": ASK, "answer": GOOD, **more}, TASKS)


def test_the_context_of_an_instruction_is_part_of_the_question():
    row = {
        "instruction": "Sum it up.",
        "context": "A long story.",
        "response": GOOD,
        "category": "summary",
    }
    _, [shown], dropped = taken(row, DEMONSTRATIONS)
    assert shown["prompt"] == [{"role": "user", "content": "Sum it up.\n\nA long story."}]
    assert dropped == {"category"}


def test_every_field_that_is_not_taken_is_listed():
    row = {"instruction": ASK, "input": "", "output": GOOD, "id": 7, "source": "x", "nothing": None}
    assert taken(row, DEMONSTRATIONS)[2] == {"id", "source"}
    row = {"messages": [{**USER, "name": "ann"}, ANSWER]}
    assert taken(row, DEMONSTRATIONS)[2] == {"messages[].name"}
    row = {"question": ASK, "prompt": "Something else?", "answer": GOOD}
    assert taken(row, DEMONSTRATIONS)[2] == {"question"}


# -- messages --------------------------------------------------------------------------------------

CALL = {"type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
WRITTEN = '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'


def shown(*messages: dict) -> tuple[list[dict], str]:
    [row] = taken({"messages": list(messages)}, DEMONSTRATIONS)[1]
    return row["prompt"], row["answer"]


def test_calls_of_tools_and_what_they_answer_are_kept_in_the_text():
    prompt, answer = shown(
        {"role": "developer", "content": "Be kind."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
        {"role": "tool", "content": "5", "tool_call_id": "2"},
        {"role": "assistant", "content": GOOD, "reasoning_content": "Hm."},
    )
    answered = "<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response>"
    assert prompt == [
        SYSTEM,
        USER,
        {"role": "assistant", "content": WRITTEN},
        {"role": "user", "content": answered},
    ]
    assert answer == f"<think>\nHm.\n</think>\n{GOOD}"


@pytest.mark.parametrize(
    "row",
    [
        {"conversation": [{"human": ASK, "assistant": GOOD}]},
        {"conversation": [{"system": "", "input": ASK, "output": GOOD}]},
        {"items": [said("human", ASK), said("gpt", GOOD)]},
        {"dialogue": [USER, ANSWER]},
    ],
)
def test_a_conversation_is_read_under_its_other_names_and_in_pairs(row):
    _, rows, _ = taken(row, DEMONSTRATIONS)
    assert rows == [{"prompt": PROMPT, "answer": GOOD}]


def test_a_conversation_may_end_with_a_call():
    assert shown(USER, {"role": "assistant", "content": "", "tool_calls": [CALL]})[1] == WRITTEN


def test_roles_of_sharegpt_for_tools_are_known():
    row = {
        "conversations": [
            said("human", ASK),
            said("function_call", "{}"),
            said("observation", "4"),
            said("gpt", GOOD),
        ]
    }
    [shown] = taken(row, DEMONSTRATIONS)[1]
    assert [message["role"] for message in shown["prompt"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "critic", "content": "x"}, "not 'critic'"),
        ({"role": "user", "content": 7}, "the content must be text"),
        (
            {"role": "user", "content": [{"type": "input_audio"}]},
            "parts must be text or images, not 'input_audio'",
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{}]},
            "must have the name of a function",
        ),
    ],
)
def test_a_message_that_cannot_be_kept_is_named_with_its_place(message, reason):
    found = why({"messages": [USER, message, ANSWER]}, DEMONSTRATIONS)
    assert reason in found and "messages[1]" in found


# -- annotation tools ------------------------------------------------------------------------------


def test_a_text_that_a_person_wrote_is_shown_and_preferred_to_the_original():
    row = {
        "data": {"prompt": ASK, "response": POOR},
        "annotations": [
            {
                "completed_by": 3,
                "result": [{"type": "textarea", "from_name": "better", "value": {"text": [GOOD]}}],
            },
            {"completed_by": 4, "was_cancelled": True, "result": []},
        ],
    }
    [shown] = taken(row, DEMONSTRATIONS)[1]
    assert (shown["answer"], shown["author"]) == (GOOD, "annotator-3")
    _, [preferred], dropped = taken(row, PREFERENCES)
    assert (preferred["chosen"], preferred["rejected"]) == (GOOD, POOR)
    assert "annotations that were cancelled" in dropped


def test_each_person_who_annotated_has_a_word_of_their_own():
    said_by = [
        {"value": value, "user_id": user} for value, user in (("good", "u-1"), ("bad", "u-2"))
    ]
    row = {"fields": {"prompt": ASK, "response": GOOD}, "responses": {"verdict": said_by}}
    assert [(one["author"], one["label"]) for one in taken(row, THUMBS)[1]] == [
        ("u-1", True),
        ("u-2", False),
    ]
    assert why(row, DEMONSTRATIONS)


def test_answers_that_an_annotator_put_in_order_are_pairs():
    row = {
        "data": {"prompt": ASK, "answers": [{"id": "a", "body": POOR}, {"id": "b", "body": GOOD}]},
        "annotations": [
            {
                "completed_by": 1,
                "result": [
                    {"from_name": "r", "type": "ranker", "value": {"ranker": {"_": ["b", "a"]}}}
                ],
            }
        ],
    }
    _, (read,), _ = taken(row, PREFERENCES)
    assert (read["chosen"], read["rejected"], read["author"]) == (GOOD, POOR, "annotator-1")


def test_columns_of_an_argilla_export_are_read():
    row = {
        "prompt": ASK,
        "response": GOOD,
        "q.responses": ["yes", "no"],
        "q.responses.users": ["a", "b"],
        "q.responses.status": ["submitted", "discarded"],
    }
    assert [(one["author"], one["label"]) for one in taken(row, THUMBS)[1]] == [("a", True)]


# -- the registry ----------------------------------------------------------------------------------


def test_every_layout_has_a_name_of_its_own_and_a_title():
    assert len(BY_NAME) == len(LAYOUTS)
    assert all(layout.title and layout.reads for layout in LAYOUTS)


def test_the_handbook_lists_every_layout():
    handbook = (Path(__file__).resolve().parents[2] / "docs" / "tasksets.md").read_text()
    assert [layout.name for layout in LAYOUTS if f"| `{layout.name}` | " not in handbook] == []


@pytest.mark.parametrize("kind", [TASKS, DEMONSTRATIONS, PREFERENCES, THUMBS])
@pytest.mark.parametrize("value", [None, 7, "text", [], {}, [[]], [{}], {"a": {}}], ids=repr)
def test_fields_of_any_type_are_read_or_refused_and_nothing_else(kind, value):
    names = {name for row in (*PAIRS.values(), *SHOWN.values(), *BAD.values()) for name in row}
    for row in [
        *PAIRS.values(),
        *SHOWN.values(),
        *BAD.values(),
        *(one for one, _ in ASKED.values()),
    ]:
        for name in sorted(names):
            try:
                taken({**row, name: value}, kind)
            except NotThisLayout:
                continue
