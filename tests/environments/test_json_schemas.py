"""Schemas from outside are applied in bounded time; a schema that cannot be is rejected with its
position.
"""

import json
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from apps.accounts.patterns import BadPattern, compile_pattern
from apps.environments.json_schemas import BadSchema, errors_in, require_schema

BOMB = "^(a+)+$"
FUSE = "a" * 40 + "!"
NESTED = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
# Each takes hours with jsonschema alone.
BOMBS = {
    "pattern": ({"pattern": BOMB}, FUSE),
    "patternProperties": ({"patternProperties": {BOMB: True}}, {FUSE: 1}),
    "additionalProperties": (
        {"patternProperties": {BOMB: True}, "additionalProperties": False},
        {FUSE: 1},
    ),
    "propertyNames": ({"propertyNames": {"pattern": BOMB}}, {FUSE: 1}),
    "$schema": (
        {"items": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": BOMB}},
        [FUSE],
    ),
    "$schema at the root": (
        {"$schema": Draft202012Validator.META_SCHEMA["$id"], "allOf": [{"pattern": BOMB}]},
        FUSE,
    ),
    "unevaluatedProperties": (
        {"unevaluatedProperties": False, "allOf": [{"patternProperties": {BOMB: True}}]},
        {FUSE: 1},
    ),
    "$ref": ({"$defs": NESTED | {"d60": False}, "$ref": "#/$defs/d0"}, 1),
    "a reference to a place that is no subschema": (
        {"x": {"y": {"pattern": BOMB}}, "$ref": "#/x/y"},
        FUSE,
    ),
    "a long value in many errors": (
        {"anyOf": [{"type": "null"}] * 2000},
        {"a": {"b": ["x" * 1_000_000]}},
    ),
    "uniqueItems": ({"uniqueItems": True}, [1, "a", *([n] for n in range(50_000))]),
}
ONE = """
import json, sys
from apps.environments.json_schemas import BadSchema, errors_in
schema, document = json.load(sys.stdin)
try:
    print(len(list(errors_in(schema, document))))
except BadSchema as error:
    print(error)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_no_schema_blocks_the_process(name):
    """Check each schema in a process of its own, which ends even if the schema blocks it."""
    done = subprocess.run(
        [sys.executable, "-c", ONE],
        input=json.dumps(BOMBS[name]),
        text=True,
        timeout=20,
        capture_output=True,
    )
    assert done.stdout.strip(), done.stderr


AGREED = [
    ({"pattern": "^a"}, ["abc", "ba", 3]),
    ({"pattern": "\\u0061$"}, ["ba", "ab"]),
    (
        {"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": False},
        [{"n_a": 1}, {"n_a": "x"}, {"b": 1}],
    ),
    (
        {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        [{"a": 1, "b": "x"}, {"b": 1}, []],
    ),
    (
        {"uniqueItems": True},
        [[1, True], [1, 1.0], [{"a": [1]}, {"a": [1]}], ["1", 1], [None, None], [0, False]],
    ),
    (
        {
            "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["v"]}},
            "$ref": "#/$defs/n",
        },
        [{"v": 1, "next": {"v": 2}}, {"v": 1, "next": {}}],
    ),
    ({"properties": {"a": True}, "unevaluatedProperties": False}, [{"a": 1}, {"b": 1}]),
]


@pytest.mark.parametrize(("schema", "documents"), AGREED, ids=lambda one: json.dumps(one)[:40])
def test_validation_agrees_with_jsonschema(schema, documents):
    for document in documents:
        assert (not list(errors_in(schema, document))) == Draft202012Validator(schema).is_valid(
            document
        )


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?=a)b", "look-arounds"),
        ("(?<!a)b", "look-arounds"),
        (r"(a)\1", "backreferences"),
        ("(", "missing"),
        ("a" * 2001, "2000"),
        ("(a{1000}){1000}", "repetition"),
        ("\ud800", "is not supported"),
    ],
    ids=repr,
)
def test_pattern_that_cannot_be_run_is_rejected_with_its_position(pattern, words):
    schema = {"properties": {"say": {"items": {"anyOf": [{}, {"pattern": pattern}]}}}}
    with pytest.raises(BadSchema, match=words) as refusal:
        require_schema(schema)
    assert str(refusal.value).startswith("properties.say.items.anyOf.1.pattern: ")
    with pytest.raises(BadPattern, match=words):
        compile_pattern(pattern, "field")


def test_invalid_schema_is_rejected_with_its_position():
    with pytest.raises(BadSchema, match=r"at properties\.a\.type: 'nothing' is not valid"):
        require_schema({"properties": {"a": {"type": "nothing"}}})
    with pytest.raises(BadSchema, match="something outside it"):
        list(errors_in({"$ref": "https://example.org/other.json"}, 1))
    with pytest.raises(BadSchema, match="to itself"):
        list(errors_in({"$ref": "#"}, 1))
