"""Tasks in the layouts of data sets and tools: the question, and the answer for the scorer."""

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
def test_task_in_each_layout_is_recognised_and_read(name):
    row, expected = ASKED[name]
    found, [task], _ = taken(row, TASKS)
    assert found == name
    assert {key: task[key] for key in expected} == expected
    if name not in ("countdown", "programs"):
        assert task["prompt"] == [{"role": "user", "content": "2+2?"}]


@pytest.mark.parametrize("four", [[{"role": "assistant", "content": "4"}], said("gpt", "4")])
def test_answer_in_a_message_is_read_as_its_text(four):
    sums = {"prompt": [{"role": "user", "content": "2+2?"}], "completion": four}
    assert taken(sums, TASKS)[1][0]["answer"] == "4"
    assert taken({**sums, "completion": json.dumps(four)}, TASKS)[1][0]["answer"] == "4"
    two = {**sums, "completion": [ANSWER, ANSWER]}
    assert "completion: must be text or a single message" in why(two, TASKS)


def test_answer_labelled_as_wrong_is_not_a_reference_answer():
    sums = {"prompt": "2+2?", "completion": "4"}
    assert taken({**sums, "label": True}, TASKS)[1][0]["answer"] == "4"
    reason = why({**sums, "label": False}, TASKS)
    assert reason == "label: is false, so the text in completion is not the correct answer"
    assert taken({"question": "Is 2 even?", "label": False}, TASKS)[1][0]["answer"] == [
        "no",
        "false",
    ]


def test_fields_that_are_only_inspected_are_reported_as_dropped():
    row = {"question": "2+2?", "ground_truth": "4", "response": "It is 5.", "thumb": "down"}
    _, [task], dropped = taken(row, TASKS)
    assert (task["answer"], dropped) == ("4", {"response", "thumb"})


def test_prompt_without_the_function_name_gets_a_test_or_the_starter_code():
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


def test_unreadable_tests_are_reported():
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
def test_task_without_a_right_answer_is_refused_with_a_reason(row, reason):
    assert reason in why(row, TASKS)


def test_row_that_does_not_match_the_files_layout_is_refused():
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
def test_multiple_choice_question_lists_its_choices_and_expects_a_letter(row, letter):
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
def test_answers_in_separate_columns_are_shuffled_the_same_way_each_time(row):
    name, (task,), dropped = taken(row, TASKS)
    assert name == "answers-apart"
    assert task["answer"]["choices"][task["answer"]["value"]] == GOOD
    assert sorted(task["answer"]["choices"].values()) == sorted([GOOD, POOR])
    assert taken(row, TASKS)[1] == [task]
    assert dropped == row.keys() & {"support", "type"}


def test_right_answer_from_several_columns_occurs_at_every_letter():
    wrong = {f"Incorrect Answer {number}": f"No {number}." for number in (1, 2, 3)}
    rows = [{"Question": f"{n}?", "Correct Answer": GOOD, **wrong} for n in range(40)]
    assert {taken(row, TASKS)[1][0]["answer"]["value"] for row in rows} == set("ABCD")


def test_two_equal_choices_are_refused():
    row = {"Question": ASK, "Correct Answer": GOOD, "Incorrect Answer 1": f"{GOOD} "}
    assert why(row, TASKS) == "Incorrect Answer 1: two of the answers are the same"


def test_endings_row_becomes_a_multiple_choice_question():
    parts = {"ctx_a": "A man sits.", "ctx_b": "he", "ctx": "A man sits. he"}
    row = {**parts, "activity_label": "Rest", "endings": ["flies.", "sleeps."], "label": "1"}
    name, (task,), dropped = taken(row, TASKS)
    asked = "Which ending continues the text?\n\nRest: A man sits. he\n\nA. flies.\nB. sleeps."
    assert (name, task["prompt"][0]["content"]) == ("endings", asked)
    assert (task["answer"]["value"], dropped) == ("B", set())
    assert "label: must be the label" in why({**row, "label": ""}, TASKS)


def test_right_choice_that_is_not_among_the_choices_is_reported():
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
def test_question_is_read_under_alternative_field_names(row, prompt):
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
def test_word_in_the_prompt_is_not_mistaken_for_the_function_name(text, shows):
    row = {"text": text, "test_list": ["assert sum([1]) == 1"]}
    _, (task,), _ = taken(row, TASKS)
    assert ("assert sum([1]) == 1" in task["prompt"][-1]["content"]) is shows


def test_label_of_a_conversation_is_no_reference_answer():
    sums = {
        "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    }
    assert taken({**sums, "label": True}, TASKS)[1][0]["answer"] == "4"
    assert why({**sums, "label": False}, TASKS).startswith("label: is false")


def test_message_under_answer_is_read_as_its_text():
    four = [{"role": "assistant", "content": "4"}]
    for answer in (four, json.dumps(four)):
        assert taken({"prompt": "2+2?", "answer": answer}, TASKS)[1][0]["answer"] == "4"


def test_countdown_is_read_from_a_table_of_texts():
    found, [task], _ = taken({"target": "98", "nums": "[44, 19, 35]"}, TASKS)
    assert (found, task["answer"]) == ("countdown", {"target": 98, "numbers": [44, 19, 35]})


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"So $\boxed 5$.", "5"),
        (r"So $\boxed5.$", "5"),
        (r"So $\fbox{7}$.", "7"),
        (r"\boxed{1}, no, \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    ],
)
def test_last_box_of_a_solution_is_the_answer(solution, answer):
    row = {"problem": "2+2?", "level": "Level 1", "type": "Algebra", "solution": solution}
    assert taken(row, TASKS)[1][0]["answer"] == answer


def test_right_choice_is_found_by_a_label_that_is_a_number():
    choices = [{"label": 1, "text": "one"}, {"label": 2, "text": "two"}]
    _, [task], _ = taken({"question": "2?", "choices": choices, "answer": 1}, TASKS)
    assert task["answer"] == {"value": "A", "choices": {"A": "one", "B": "two"}}
