"""A policy writes text: how it is read as an action, and how an observation is written as text."""

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
def test_text_is_read_as_an_action_of_the_schema(schema, text, action):
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
def test_invalid_action_text_is_rejected_with_what_to_say(schema, text):
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
def test_observation_is_written_as_text(said, read):
    assert read_observation(said) == read
