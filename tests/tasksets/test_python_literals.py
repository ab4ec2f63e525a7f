"""Columns printed as Python literals are read like the same columns in JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.tasksets.code_test_values import BadTests
from apps.tasksets.code_tests import normal_form
from apps.tasksets.layouts.conversations import decoded
from apps.tasksets.python_literals import MAX_LITERAL_LENGTH, NotALiteral, read_literal
from tests.profiles import tries

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
PLAIN = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


@given(VALUES)
@settings(max_examples=tries(40), deadline=None)
def test_python_literal_is_read_as_its_json_equivalent(value):
    assert read_literal(repr(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "text",
    [
        "['a' 'b']",  # as numpy prints two texts
        "['a'\n 'b']",
        "__import__('os').getcwd()",
        "[open('/etc/passwd')]",
        "{1: 2}",
        "{1, 2}",
        "[b'a']",
        "[1, 2",
        "['a\x00']",
        "1e999",
        "[" * 500 + "]" * 500,
        "-" * 5_000 + "1",
        "'" + "a" * MAX_LITERAL_LENGTH + "'",
    ],
)
def test_non_json_value_or_implicit_concatenation_is_refused(text):
    with pytest.raises(NotALiteral):
        read_literal(text)


@pytest.mark.parametrize(
    "row",
    [
        {"test_list": ["assert f(3) == 6", "assert f('it''s') == 1"]},
        {"input_output": {"inputs": ["2\n4 5\n"], "outputs": ["9\n"]}},
        {"inputs": ["1\n"], "outputs": ["2\n"]},
        {"verification_info": {"test_cases": [{"input": "1", "output": "2", "fn_name": None}]}},
    ],
)
def test_code_tests_printed_by_python_equal_those_in_json(row):
    printed = {name: repr(value) for name, value in row.items()}
    assert normal_form(printed) == normal_form(row) is not None


def test_code_tests_printed_by_numpy_are_refused():
    with pytest.raises(BadTests, match="test_list: not JSON"):
        normal_form({"test_list": "['assert f(3) == 6'\n 'assert f(4) == 8']"})


def test_conversation_printed_by_python_is_decoded():
    messages = [{"role": "user", "content": 'Say "it\'s"'}, {"role": "assistant", "content": "ok"}]
    assert decoded(repr(messages)) == messages
    assert decoded("[a note in brackets]") == "[a note in brackets]"
