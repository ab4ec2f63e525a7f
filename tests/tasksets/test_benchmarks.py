"""Rows of published benchmarks are read as the right tasks, pairs and demonstrations."""

import json

import pytest

from apps.tasksets.layouts import (
    DEMONSTRATIONS,
    PREFERENCES,
    THUMBS,
    NotThisLayout,
    RowReading,
    read_row,
    recognised,
)
from apps.tasksets.reading import AUTO, Columns, read_tasks
from apps.tasksets.sources.records import BadLine, Record

FOUR = {"A": "a", "B": "b", "C": "c", "D": "d"}
LISTED = "\n\nA. a\nB. b\nC. c\nD. d"
RELATIONS = {"A": "entailment", "B": "neutral", "C": "contradiction"}
NLI = {"premise": "It rains.", "hypothesis": "It is wet."}
PAIR = {"sentence1": "It rains.", "sentence2": "It is wet."}
DROP = {"passage": "Ann ran on 3 May 1921.", "question": "When?"}
NOTHING = {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": []}
MED = {"question": "Q?", "opa": "a", "opb": "b", "opc": "c", "opd": "d", "subject_name": "Anatomy"}
OLYMPIAD = {
    "question": "Find v.",
    "context": "A ship.",
    "final_answer": ["$0.3$"],
    "unit": "$m/s$",
    "is_multiple_answer": False,
    "question_type": "Open-ended",
}
INSTRUCTED = {
    "key": 7,
    "prompt": "Q?",
    "instruction_id_list": ["length_constraints:number_words"],
    "kwargs": [{"num_words": 5, "relation": "at least", "keywords": None}],
}
ARC_AGI = {
    "id": "a1",
    "train": [{"input": [[0, 1]], "output": [[1, 0]]}],
    "test": [{"input": [[2, 3]], "output": [[3, 2]]}],
}
QUALITY = {"article": "Long.", "question": "Q?", "options": list("abcd"), "gold_label": 2}
SKYWORK = {
    "entry_point": "Solution().double",
    "import_prefix": "import math",
    "test_code": "def check(candidate):\n    assert candidate(x = 2) == 4",
    "inputs": [],
    "outputs": [],
}
LEETCODE = {
    "task_id": "t",
    "prompt": "import math",
    "problem_description": "Add one.",
    "entry_point": "Solution().f",
    "input_output": [{"input": "n = 1", "output": "2"}],
}
SHEPHERD = {
    "input": "2+2? Step 1: 2+2=4 ки\nStep 2: The answer is: 4 ки",
    "label": "2+2? Step 1: 2+2=4 +\nStep 2: The answer is: 4 {}",
    "task": "GSM8K",
}
STEPS = "Step 1: 2+2=4\nStep 2: The answer is: 4"


def chosen(letter: str, choices: dict[str, str] = FOUR) -> dict:
    return {"value": letter, "choices": choices}


# (the row, its layout, what the prompt ends with, the answer)
READ = {
    "IFEval": (
        INSTRUCTED,
        "checked-instructions",
        "Q?",
        {
            "instructions": [
                {
                    "id": "length_constraints:number_words",
                    "kwargs": {"num_words": 5, "relation": "at least"},
                }
            ]
        },
    ),
    "Tulu 3, instructions": (
        {
            "messages": [{"role": "user", "content": "Q?"}],
            "ground_truth": '{"func_name": "validate_no_commas", "N": null}',
        },
        "checked-instructions",
        "Q?",
        {"instructions": [{"id": "punctuation:no_comma", "kwargs": {}}]},
    ),
    "ARC-AGI": (
        ARC_AGI,
        "grids",
        "Example 1\nInput: [[0, 1]]\nOutput: [[1, 0]]\n\nTest 1\nInput: [[2, 3]]",
        {"grids": [[[3, 2]]]},
    ),
    "QuALITY": (
        QUALITY,
        "quality",
        f"Long.\n\nQ?{LISTED}",
        {"value": "B", "choices": FOUR},
    ),
    "DROP": (
        DROP | {"answers_spans": {"spans": ["3 May", "3 May"], "types": ["span", "span"]}},
        "drop",
        "1921.\n\nWhen?",
        {"value": "3 May"},
    ),
    "DROP, a number": (DROP | {"answer": NOTHING | {"number": "3"}}, "drop", "?", {"value": "3"}),
    "DROP, a date": (
        DROP | {"answer": NOTHING | {"date": {"day": "3", "month": "May", "year": "1921"}}},
        "drop",
        "?",
        {"value": "3 May 1921"},
    ),
    "DROP, all spans of one answer, and one of another person": (
        DROP
        | {"answer": NOTHING | {"spans": ["Ann", "Bob"]}}
        | {"validated_answers": {"number": ["7"], "date": [{}], "spans": [[]]}},
        "drop",
        "?",
        {"value": ["Ann, Bob", "Ann and Bob", "7"]},
    ),
    "MedMCQA": (MED | {"cop": 2, "exp": "x"}, "choice-columns", "Q?" + LISTED, chosen("C")),
    "MedQA": (
        {"question": "Q?", "options": FOUR, "answer": "d", "answer_idx": "D"},
        "choices",
        "Q?" + LISTED,
        chosen("D"),
    ),
    "CosmosQA": (
        {"context": "C", "question": "Q?", "label": 1}
        | {"answer0": "a", "answer1": "b", "answer2": "c", "answer3": "d"},
        "choice-columns",
        "C\n\nQ?" + LISTED,
        chosen("B"),
    ),
    "C-Eval": ({"question": "Q?", **FOUR, "answer": "C"}, "choice-columns", LISTED, chosen("C")),
    "CMMLU": ({"Question": "Q?", **FOUR, "Answer": "D"}, "choice-columns", LISTED, chosen("D")),
    "five letters": (
        {"question": "Q?", **FOUR, "E": "e", "answer": "E"},
        "choice-columns",
        LISTED + "\nE. e",
        chosen("E", FOUR | {"E": "e"}),
    ),
    "LogiQA": (
        {"context": "C", "query": "Q?", "options": list("abcd"), "correct_option": 0},
        "choices",
        "C\n\nQ?" + LISTED,
        chosen("A"),
    ),
    "MathQA": (
        {"Problem": "Q?", "options": "a ) a , b ) b , c ) c , d ) d", "correct": "b"},
        "choices",
        "Q?" + LISTED,
        chosen("B"),
    ),
    "ZebraLogic": (
        {"puzzle": "Two houses.", "question": "Q?", "choices": list("abcd"), "answer": "c"},
        "choices",
        "Two houses.\n\nQ?" + LISTED,
        chosen("C"),
    ),
    "COPA": (
        {"premise": "Ann fell.", "choice1": "a", "choice2": "b", "question": "cause", "label": 1},
        "copa",
        "Ann fell.\n\nWhat was the cause of this?\n\nA. a\nB. b",
        chosen("B", {"A": "a", "B": "b"}),
    ),
    "SNLI": (NLI | {"label": 1}, "inference", "C. contradiction", chosen("B", RELATIONS)),
    "MNLI of GLUE": (NLI | {"label": 2, "idx": 0}, "inference", "n", chosen("C", RELATIONS)),
    "MNLI with names": (
        PAIR | {"gold_label": "entailment"},
        "inference",
        "n",
        chosen("A", RELATIONS),
    ),
    "RTE with names": (
        PAIR | {"label": "not_entailment"},
        "inference",
        "B. not entailment",
        chosen("B", {"A": "entailment", "B": "not entailment"}),
    ),
    "Global-MMLU": (
        {"question": "Q?", "option_a": "a", "option_b": "b", "option_c": "c", "option_d": "d"}
        | {"answer": "B", "subject": "law"},
        "choice-columns",
        "Q?" + LISTED,
        chosen("B"),
    ),
    "BBQ": (
        {"context": "C", "question": "Q?", "ans0": "a", "ans1": "b", "ans2": "c", "label": 2},
        "choice-columns",
        "C\n\nQ?\n\nA. a\nB. b\nC. c",
        chosen("C", {"A": "a", "B": "b", "C": "c"}),
    ),
    "ARC, its own file": (
        {
            "question": {
                "stem": "Q?",
                "choices": [{"text": x, "label": x.upper()} for x in "abcd"],
            },
            "answerKey": "D",
        },
        "choices",
        "Q?" + LISTED,
        chosen("D"),
    ),
    "MuSR": (
        {"narrative": "Long.", "question": "Q?", "choices": "['a', 'b', 'c', 'd']"}
        | {"answer_index": 1},
        "choices",
        "Long.\n\nQ?" + LISTED,
        chosen("B"),
    ),
    "AGIEval": (
        {"query": "Q?", "choices": ["(A)a", "(B)b", "(C)c", "(D)d"], "gold": [1]},
        "choices",
        "Q?" + LISTED,
        chosen("B"),
    ),
    "Search-R1": (
        {
            "prompt": [{"role": "user", "content": "Q?"}],
            "reward_model": {"ground_truth": {"target": ["a", "b"]}, "style": "rule"},
        },
        "verl",
        "Q?",
        {"value": ["a", "b"]},
    ),
    "TextbookReasoning": (
        {"question": "Q?", "answer": "Long. So 4.", "reference_answer": "4"},
        "question",
        "Q?",
        {"value": "4"},
    ),
    "CRUXEval": (
        {"code": "def f(x):\n    return x", "input": "1", "output": "1", "id": "s"},
        "cruxeval",
        "What does `f(1)` return?",
        {"value": "1"},
    ),
    "Codeforces": (
        {"description": "Add.", "input_format": "a, b", "output_format": "c"}
        | {"official_tests": [{"input": "1 2", "output": "3"}], "examples": []},
        "programs",
        "Add.\n\nInput: a, b\n\nOutput: c",
        {"tests": [{"stdin": "1 2", "stdout": "3"}]},
    ),
    "WebQuestions": (
        {"question": "Q?", "answers": ["Ann", "Bob"]},
        "question",
        "Q?",
        {"value": ["Ann", "Bob"]},
    ),
    "PopQA": (
        {"question": "Q?", "possible_answers": '["Ann", "Bob"]'},
        "question",
        "Q?",
        {"value": ["Ann", "Bob"]},
    ),
    "PubMedQA": (
        {"question": "Q?", "context": {"contexts": ["C", "D"]}, "final_decision": "yes"},
        "question",
        "C\n\nD\n\nQ?",
        {"value": "yes"},
    ),
    "MGSM": (
        {"question": "Q?", "answer": "Step by step …", "answer_number": 18},
        "question",
        "Q?",
        {"value": 18},
    ),
    "GAIA": ({"Question": "Q?", "Final answer": "17"}, "question", "Q?", {"value": "17"}),
    "OlympiadBench": (
        OLYMPIAD,
        "olympiadbench",
        "A ship.\n\nFind v.",
        {"value": "0.3", "unit": "m/s"},
    ),
    "SciBench": (
        {"problem_text": "Q?", "answer_number": "2.1", "unit": " $m/s$", "answer_latex": " 2.1 "},
        "scibench",
        "Q?",
        {"value": "2.1", "unit": "m/s"},
    ),
    "MetaMath": (
        {"query": "Q?", "response": "2+2=4.\nThe answer is: 4", "type": "MATH_AnsAug"},
        "metamath",
        "Q?",
        {"value": "4"},
    ),
    "Skywork-OR1, code": (
        {
            "prompt": [{"role": "user", "content": "Double."}],
            "reward_model": {"ground_truth": json.dumps(SKYWORK)},
        },
        "verl",
        "Double.",
        {
            "function": "double",
            "tests": [{"check": SKYWORK["test_code"] + "\ncheck(double)\n"}],
            "setup": "import math",
        },
    ),
    "LeetCodeDataset": (
        LEETCODE,
        "programs",
        "Add one.\n\nThe function is called `f`.",
        {"function": "f", "tests": [{"args": [], "kwargs": {"n": 1}, "value": 2}]},
    ),
}
REFUSED = {
    "DROP, where several texts may be one answer or several": (
        DROP | {"answers_spans": {"spans": ["Ann", "Bob"]}},
        "does not say whether all of them",
    ),
    "MedMCQA, a test row": (MED | {"cop": -1}, "cop: must be a number from 0 to 3"),
    "C-Eval, a test row": ({"question": "Q?", **FOUR, "answer": ""}, "answer: must be a letter"),
    "SNLI, where nobody agreed": (NLI | {"label": -1}, "label: must be 0, 1 or 2"),
    "MNLI, where nobody agreed": (PAIR | {"gold_label": "-"}, "gold_label: is '-'"),
    "RTE, whose numbers mean something else": (PAIR | {"label": 0, "idx": 1}, "give the relation"),
    "CB, whose numbers mean something else": (NLI | {"idx": 1, "label": 1}, "give the relation"),
    "OlympiadBench, a proof": (
        OLYMPIAD | {"final_answer": None, "question_type": "Theorem proof"},
        "final_answer: is empty (Theorem proof)",
    ),
    "SWE-bench": (
        {"problem_statement": "Bug.", "FAIL_TO_PASS": '["t"]', "patch": "diff", "repo": "a/b"},
        "solved in a repository",
    ),
    "IFEval, a check that is not known": (
        {"prompt": "No commas.", "instruction_id_list": ["punctuation:no_dash"], "kwargs": [{}]},
        "kwargs.0: 'punctuation:no_dash' is a check that is not known",
    ),
    "IFEval, a check that is told too little": (
        INSTRUCTED | {"kwargs": [{"num_words": 5}]},
        "kwargs.0.relation: must be one of at least,",
    ),
    "IFEval, more names than what they are told": (
        INSTRUCTED | {"kwargs": [{}, {}]},
        "kwargs: must have one object for each of instruction_id_list",
    ),
    "Tulu 3, a check that is not known": (
        {"messages": [{"role": "user", "content": "Q?"}], "ground_truth": '{"func_name": "x"}'},
        "ground_truth.func_name: 'x' is a check that is not known",
    ),
    "ARC-AGI, a test without its output": (
        ARC_AGI | {"test": [{"input": [[0]]}]},
        "test.0.output: must be 1 to 30 rows",
    ),
    "QuALITY, all questions of a text": (
        {"article": "Long.", "questions": [{"question": "Q?", "gold_label": 1}]},
        "write a row for each",
    ),
    "QuALITY, a test row": (QUALITY | {"gold_label": 0}, "gold_label: must be a number from 1"),
    "DS-1000": ({"prompt": "Q?", "code_context": "def test_execution"}, "runs the reply within"),
    "SQuAD 2, a question without an answer": (
        {"context": "C.", "question": "Q?", "answers": {"text": [], "answer_start": []}},
        "which --quarantine leaves out",
    ),
    "Math-Shepherd": (SHEPHERD, "label: says which steps are right"),
}
SUMMARIES = {
    "info": {"post": "Long.", "title": "T", "id": "i"},
    "summaries": [{"text": "short"}, {"text": "better"}],
    "choice": 1,
}
TRAJECTORY = {"trajectory": [{"from": "user", "value": "Q?"}], "chosen": "a", "rejected": "b"}
REWARD_BENCH = {"prompt": "Q?", "chosen": ["a"], "rejected": ["b", "c"], "subset": "Math"}
REASONED = {"problem": "Q?", "deepseek_reasoning": "Hm.", "deepseek_solution": "4"}
GOOD = {**SHEPHERD, "label": SHEPHERD["label"].format("+")}
BAD = {**SHEPHERD, "label": SHEPHERD["label"].format("-")}
# (the kind of lesson, the row, its layout, the expected rows without their prompt)
LESSONS = {
    "OpenThoughts": (
        DEMONSTRATIONS,
        REASONED,
        "s1",
        [{"answer": "<think>\nHm.\n</think>\n\n4"}],
    ),
    "UltraInteract": (
        PREFERENCES,
        TRAJECTORY,
        "pair-behind-conversation",
        [{"chosen": "a", "rejected": "b"}],
    ),
    "summaries": (PREFERENCES, SUMMARIES, "summaries", [{"chosen": "better", "rejected": "short"}]),
    "RewardBench 2": (
        PREFERENCES,
        REWARD_BENCH,
        "several-answers",
        [{"chosen": "a", "rejected": "b"}, {"chosen": "a", "rejected": "c"}],
    ),
    "JudgeBench": (
        PREFERENCES,
        {"question": "Q?", "response_A": "a", "response_B": "b", "label": "B>A"},
        "picked-response",
        [{"chosen": "b", "rejected": "a"}],
    ),
    "LIMA": (
        DEMONSTRATIONS,
        {"conversations": ["Q?", "a"], "source": "s"},
        "ultrachat",
        [{"answer": "a"}],
    ),
    "Math-Shepherd": (
        THUMBS,
        BAD,
        "math-shepherd",
        [{"completion": STEPS, "label": False}],
    ),
    "Math-Shepherd, all right": (DEMONSTRATIONS, GOOD, "math-shepherd", [{"answer": STEPS}]),
}
NO_LESSON = {
    "a step that is wrong": (BAD, "a step is labelled -"),
    "an answer that does harm": (
        {"prompt": "Q?", "response": "a", "response_harm_label": "harmful"},
        "response_harm_label",
    ),
    "an answer that is not safe": (
        {"prompt": "Q?", "response": "a", "is_safe": False},
        "is_safe",
    ),
}


def read(row: dict) -> tuple:
    rows = read_tasks([Record(1, row, b"{}")], Columns(layout=AUTO))
    return rows, *rows


@pytest.mark.parametrize("name", READ)
def test_benchmark_row_is_read_as_a_complete_task(name):
    row, layout, asked, answer = READ[name]
    rows, task = read(row)
    assert not isinstance(task, BadLine), task
    assert rows.layout.name == layout
    assert task.prompt[-1]["content"].endswith(asked)
    assert task.answer == answer


@pytest.mark.parametrize("name", REFUSED)
def test_benchmark_row_that_cannot_be_scored_is_refused_with_a_reason(name):
    row, reason = REFUSED[name]
    _, refused = read(row)
    assert isinstance(refused, BadLine)
    assert reason in refused.reason


@pytest.mark.parametrize("name", LESSONS)
def test_dataset_row_is_read_as_the_expected_lesson(name):
    kind, row, layout, expected = LESSONS[name]
    found = recognised([row], kind)
    assert found.name == layout
    lessons = read_row(found, row, kind, RowReading())
    assert [lesson.pop("prompt") != "" and lesson for lesson in lessons] == expected


@pytest.mark.parametrize("name", NO_LESSON)
def test_row_labelled_as_bad_is_not_a_demonstration(name):
    row, reason = NO_LESSON[name]
    with pytest.raises(NotThisLayout, match=reason):
        read_row(recognised([row], DEMONSTRATIONS), row, DEMONSTRATIONS, RowReading())


ODD = (
    None,
    7,
    -1,
    1.0,
    True,
    "",
    "[1",
    [],
    {},
    [[]],
    [{}],
    ["a", 1],
    {"spans": [1]},
    "a ) x , b ) ",
)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_field_of_any_type_is_read_or_refused(odd):
    rows = [row for row, *_ in (*READ.values(), *REFUSED.values())]
    for row in rows:
        for name in row:
            _, found = read(row | {name: odd})
            assert isinstance(found, BadLine) or found.prompt
