"""Tasks as data sets and tools have them: the question, and the answer that a scorer reads."""

import json

import pytest

from apps.tasksets.layouts import (
    BY_NAME,
    TASKS,
    NotThisLayout,
    RowReading,
    recognised,
)
from tests.tasksets.layout_rows import ANSWER, ASK, ASKED, GOOD, POOR, USER, said, taken, why


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
