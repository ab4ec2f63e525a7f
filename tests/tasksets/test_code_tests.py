"""Tests of programming tasks, in the layouts of common data sets, are converted to one form."""

import base64
import io
import json
import pickle
import zlib

import pytest

from apps.tasksets.code_test_values import BadTests
from apps.tasksets.code_tests import normal_form
from apps.tasksets.pickled_text import NotOneText
from apps.tasksets.pickled_text import read_pickled_text as read_pickled_text
from apps.tasksets.reading import Columns, read_jsonl
from apps.tasksets.sources.records import BadLine

STDIN = [{"input": "2\n4 5\n", "output": "9\n", "testtype": "stdin"}]
RUN = {"tests": [{"stdin": "2\n4 5\n", "stdout": "9\n"}]}
CALL = {"function": "f", "tests": [{"args": [[4, 5], 2], "value": 9}]}
NAMED = {"function": "f", "tests": [{"args": [[4, 5]], "kwargs": {"n": 2}, "value": 9}]}
ALL_NAMED = {"function": "f", "tests": [{"args": [], "kwargs": {"s": "a", "n": 2}, "value": 9}]}
CHECK = {"function": "f", "tests": [{"check": "assert f(3) == 6"}]}


def packed(document: object, protocol: int | None = None) -> str:
    """Pack a document as LiveCodeBench packs its private tests."""
    pickled = pickle.dumps(json.dumps(document), protocol)
    return base64.b64encode(zlib.compress(pickled)).decode()


LAYOUTS = {
    "our own of programs": (RUN, RUN),
    "our own of calls": (CALL, CALL),
    "our own of checks": (CHECK, CHECK),
    "our own with keyword arguments": (NAMED, NAMED),
    "arguments that are an object": (
        {"function": "f", "tests": [{"args": {"s": "a", "n": 2}, "value": 9}]},
        ALL_NAMED,
    ),
    "inputs that are objects": (
        {"fn_name": "f", "inputs": [{"s": "a", "n": 2}], "outputs": [9]},
        ALL_NAMED,
    ),
    "LeetCodeDataset": (
        {
            "entry_point": "Solution().f",
            "input_output": [{"input": "s = 'a', n = 2", "output": "9"}],
        },
        ALL_NAMED,
    ),
    "MBPP": (
        {"task_id": 1, "text": "Double it.", "code": "…", "test_list": ["assert f(3) == 6"]},
        CHECK,
    ),
    "MBPP with what runs before": (
        {
            "test_list": ["assert f(3) == 6"],
            "test_setup_code": "import math",
            "test_imports": ["import re"],
        },
        {**CHECK, "setup": "import math\nimport re"},
    ),
    "HumanEval": (
        {
            "prompt": "def f(x):\n    '''Double it.'''\n",
            "entry_point": "f",
            "test": "def check(candidate):\n    assert candidate(3) == 6\n",
        },
        {
            "function": "f",
            "tests": [
                {"check": "def check(candidate):\n    assert candidate(3) == 6\n\ncheck(f)\n"}
            ],
            "preamble": "def f(x):\n    '''Double it.'''\n\n",
        },
    ),
    "APPS as JSON in a text": (
        {"input_output": json.dumps({"inputs": ["2\n4 5\n"], "outputs": ["9\n"]})},
        RUN,
    ),
    "APPS with lines": ({"input_output": {"inputs": [["2", "4 5"]], "outputs": [[9]]}}, RUN),
    "TACO with a function": (
        {"input_output": json.dumps({"fn_name": "f", "inputs": [[[4, 5], 2]], "outputs": [9]})},
        CALL,
    ),
    "columns with numbers": (
        {"inputs": ["2"], "outputs": [9]},
        {"tests": [{"stdin": "2", "stdout": "9"}]},
    ),
    "columns whose value stands in a list": (
        {"fn_name": "f", "inputs": [[3]], "outputs": [[6]]},
        {"function": "f", "tests": [{"args": [3], "values": [[6], 6]}]},
    ),
    "LiveCodeBench, public": ({"public_test_cases": json.dumps(STDIN)}, RUN),
    "LiveCodeBench, public under the name of tests": ({"tests": json.dumps(STDIN)}, RUN),
    "LiveCodeBench, packed": (
        {"public_test_cases": json.dumps(STDIN), "private_test_cases": packed(STDIN)},
        {"tests": RUN["tests"] * 2},
    ),
    "LiveCodeBench, private as JSON": ({"private_test_cases": json.dumps(STDIN)}, RUN),
    "LiveCodeBench, functional": (
        {
            "public_test_cases": json.dumps(
                [{"input": "[4, 5]\n2", "output": "9", "testtype": "functional"}]
            ),
            "metadata": json.dumps({"func_name": "f"}),
        },
        CALL,
    ),
    "LiveCodeBench, functional, named by its starter code": (
        {
            "private_test_cases": packed(
                [{"input": "[4, 5]\n2", "output": "9", "testtype": "functional"}]
            ),
            "starter_code": (
                "class Solution:\n    def f(self, a: List[int], n: int) -> int:\n        "
            ),
        },
        CALL,
    ),
    "asserts in one text": ({"tests": "assert f(3) == 6"}, CHECK),
    "MBPP with one text": ({"test_list": "assert f(3) == 6"}, CHECK),
    "a list of unit tests": ({"unit_tests": ["assert f(3) == 6"]}, CHECK),
    "one input and one output": ({"inputs": "2\n4 5\n", "outputs": "9\n"}, RUN),
    "an output under another name": (
        {"test_cases": [{"input": "2\n4 5\n", "expected_output": "9\n"}]},
        RUN,
    ),
    "a plain assert": ({"value": "assert f(3) == 6"}, CHECK),
    "a list of asserts": ({"value": ["assert f(3) == 6"]}, CHECK),
    "AceCode": ({"test_cases": ["assert f(3) == 6"]}, CHECK),
    "AceCode of its second version": ({"tests": ["assert f(3) == 6"]}, CHECK),
    "verl": (
        {
            "reward_model": {
                "style": "rule",
                "ground_truth": json.dumps({"inputs": ["2\n4 5\n"], "outputs": ["9\n"]}),
            }
        },
        RUN,
    ),
    "verl with asserts": (
        {
            "ground_truth": json.dumps(
                {"assert_case": ["assert f(3) == 6"], "import_prefix": "import re"}
            )
        },
        {**CHECK, "setup": "import re"},
    ),
    "verl, functional": ({"ground_truth": json.dumps({"functional": "assert f(3) == 6"})}, CHECK),
    "a plain text of JSON": (
        {"value": json.dumps({"inputs": ["2\n4 5\n"], "outputs": ["9\n"]})},
        RUN,
    ),
    "verification_info, programs": (
        {
            "verification_info": json.dumps(
                {
                    "language": "python",
                    "test_cases": [
                        {
                            "type": "stdin_stdout",
                            "input": "2\n4 5\n",
                            "output": "9\n",
                            "fn_name": None,
                        }
                    ],
                }
            )
        },
        {**RUN, "language": "python"},
    ),
    "verification_info, calls": (
        {
            "verification_info": {
                "test_cases": [
                    {"type": "function_call", "fn_name": "f", "input": [[4, 5], 2], "output": 9}
                ]
            }
        },
        CALL,
    ),
    "CodeContests": (
        {
            "public_tests": {"input": ["2\n4 5\n"], "output": ["9\n"]},
            "private_tests": {"input": [], "output": []},
        },
        RUN,
    ),
    "a file of tests": (
        {"test": "from solution import f\n\ndef test_three():\n    assert f(3) == 6\n"},
        {
            "function": "f",
            "tests": [
                {"check": "from solution import f\n\ndef test_three():\n    assert f(3) == 6\n"}
            ],
        },
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_code_test_layout_is_normalised_and_normalising_again_changes_nothing(name):
    row, wanted = LAYOUTS[name]
    found = normal_form(row)
    assert found is not None and found.answer == wanted
    assert normal_form(found.answer).answer == wanted


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"value": 4},
        {"value": "18"},
        {"value": "[1, 2]"},
        {"reference": "Paris"},
        {"ground_truth": "72"},
        {"value": '{"a": 1}'},
        {"value": "assert that it is so"},
        {"value": ["assert", "deny"]},
        {"ideas": [{"any_of": ["water"]}]},
        {"test": "a b c"},
        {"inputs": "a"},
    ],
)
def test_answers_without_code_tests_have_no_normal_form(row):
    assert normal_form(row) is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"input_output": "{"}, "input_output: not JSON"),
        ({"input_output": "[]"}, "input_output: must be an object"),
        ({"input_output": {"inputs": ["1"], "outputs": []}}, "same length"),
        ({"inputs": ["1"], "outputs": [None]}, "outputs.0: must be text"),
        ({"tests": []}, "tests: the task has none"),
        ({"test_list": "f(1"}, "test_list: not JSON"),
        ({"test_list": ["assert f(1"]}, "test_list: the test is not Python"),
        ({"test_cases": [3]}, "test_cases.0"),
        (
            {"public_test_cases": '[{"input": "1", "output": "2", "testtype": "functional"}]'},
            "func_name",
        ),
        (
            {
                "public_test_cases": (
                    '[{"input": "a", "output": "2", "testtype": "functional", "fn_name": "f"}]'
                )
            },
            "input: not JSON",
        ),
        ({"private_test_cases": "%%%"}, "must be JSON or base64-encoded zlib"),
        (
            {"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps([1]))).decode()},
            "must contain exactly one text",
        ),
        ({"function": "a b", "tests": []}, "function"),
        ({"function": "f", "tests": [{"args": 3, "value": 6}]}, "tests.0.args: must be a list"),
        ({"function": "f", "tests": [{"kwargs": {"a b": 3}, "value": 6}]}, "tests.0.kwargs: must"),
        ({"function": "f", "tests": [{"input": "n = 3, 4", "output": "6"}]}, "tests.0.input: must"),
        ({"function": "f", "tests": [{"input": "n = g(3)", "output": "6"}]}, "tests.0.input: not"),
    ],
)
def test_unreadable_code_tests_are_refused_with_the_field_name(row, words):
    with pytest.raises(BadTests) as refusal:
        normal_form(row)
    assert words in str(refusal.value)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("text", ["", "a", "é" * 200, "x" * 100_000])
def test_a_pickled_text_is_read_without_loading_it(text, protocol):
    assert read_pickled_text(pickle.dumps(text, protocol)) == text


class Runs:
    """An object whose unpickling would call a function."""

    def __reduce__(self):
        return (print, ("loaded",))


@pytest.mark.parametrize(
    "pickled",
    [
        pickle.dumps(Runs()),
        pickle.dumps(["a"]),
        pickle.dumps(("a", "b")),
        pickle.dumps(b"a"),
        pickle.dumps(3),
        b"",
        b"\x80\x09.",
        pickle.dumps("abc")[:-1],
        pickle.dumps("abc") + b".",
        pickle.dumps("abc")[:-4],
        b"cos\nsystem\n(S'id'\ntR.",
    ],
)
def test_pickle_of_anything_but_one_text_is_refused(pickled, capsys):
    with pytest.raises(NotOneText):
        read_pickled_text(pickled)
    assert capsys.readouterr().out == ""


def test_private_tests_that_unpack_to_more_than_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr("apps.tasksets.code_test_values.MAX_UNPACKED_BYTES", 1_000)
    with pytest.raises(BadTests, match="larger than"):
        normal_form({"private_test_cases": packed(STDIN * 100)})


def test_import_normalises_code_tests_and_lists_unreadable_ones_by_line():
    lines = [
        {
            "prompt": "Double it.",
            "answer": {"test_list": ["assert f(3) == 6"], "reference": "kept"},
        },
        {"question": "Add.", "input_output": json.dumps({"inputs": ["1"], "outputs": ["1"]})},
        {"question": "Add.", "input_output": "{"},
        {"prompt": "Two and two?", "answer": "4"},
    ]
    text = "\n".join(map(json.dumps, lines)).encode()
    double, add, bad, plain = read_jsonl(io.BytesIO(text), Columns())
    assert double.answer == {"reference": "kept", **CHECK}
    assert (
        add.answer == {"tests": [{"stdin": "1", "stdout": "1"}]}
        and add.prompt[0]["content"] == "Add."
    )
    assert isinstance(bad, BadLine) and bad.number == 3 and "input_output: not JSON" in bad.reason
    assert plain.answer == {"value": "4"}
