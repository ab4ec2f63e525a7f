"""A policy speaks text: what action that is, and how an observation reads."""

import pytest

from apps.environments.pull.errors import NoAction
from apps.environments.pull.wording import read_action, read_observation

TEXT = {"type": "string"}
MESSAGE = {"type": "object", "properties": {"message": TEXT, "metadata": {"type": "object"}}}
MOVE = {"type": "object", "properties": {"row": {"type": "integer"}, "column": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "text", "action"),
    [
        (TEXT, " as it is ", " as it is "),
        ({"enum": ["up", "down"]}, " up\n", "up"),
        (MESSAGE, "hello", {"message": "hello"}),
        (MOVE, 'I go to {"row": 1, "column": 2}.', {"row": 1, "column": 2}),
        ({"type": "integer"}, " 3 ", 3),
        ({"type": "array"}, "[1, 2]", [1, 2]),
    ],
)
def test_text_becomes_the_action_of_the_schema(schema, text, action):
    assert read_action(schema, text) == action


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"enum": ["up"]}, "left"),
        (MOVE, "left"),
        (MOVE, "{1}"),
        (MOVE, '{"row": NaN}'),
        ({"type": "integer"}, "true"),
        ({"type": "integer"}, "1.5"),
        ({"type": "boolean"}, "1"),
        ({"type": "array"}, "{}"),
    ],
)
def test_text_that_is_no_action_is_told_what_is_right(schema, text):
    with pytest.raises(NoAction, match=r"^say "):
        read_action(schema, text)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("text", "text"),
        ([{"role": "tool", "content": "4"}], [{"role": "tool", "content": "4"}]),
        ({"message": "hello", "metadata": {"n": 1}}, "hello"),
        ({"board": [1, 2], "turn": "ü"}, '{"board": [1, 2], "turn": "ü"}'),
        ([0.5, 1], "[0.5, 1]"),
        (7, "7"),
    ],
)
def test_an_observation_reads_as_text(said, read):
    assert read_observation(said) == read
