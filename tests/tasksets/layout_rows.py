"""Example rows of each layout, and the results of reading them."""

import pytest

from apps.tasksets.layouts import (
    NotThisLayout,
    RowReading,
    read_row,
    recognised,
)

ASK = "How are you?"
GOOD = "Well, thank you."
POOR = "Go away."
SYSTEM = {"role": "system", "content": "Be kind."}
USER = {"role": "user", "content": ASK}
ANSWER = {"role": "assistant", "content": GOOD}
PROMPT = [USER]


def said(who: str, words: object) -> dict:
    return {"from": who, "value": words}


def taken(
    row: dict, kind: str, min_rating: float | None = None
) -> tuple[str, list[dict], set[str]]:
    """Return the layout's name, the rows in our columns, and the fields that are dropped."""
    layout = recognised([row], kind)
    taking = RowReading(min_rating)
    rows = read_row(layout, row, kind, taking)
    return layout.name if layout else "", rows, taking.dropped


def why(row: dict, kind: str, min_rating: float | None = None) -> str:
    with pytest.raises(NotThisLayout) as refusal:
        taken(row, kind, min_rating)
    return str(refusal.value)


def pair(margin: float | None = None, prompt: list = PROMPT) -> dict:
    return {"prompt": prompt, "chosen": GOOD, "rejected": POOR} | (
        {} if margin is None else {"margin": margin}
    )


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
