"""Validation of documents by JSON Schemas from outside, in bounded time.

jsonschema alone is not safe for schemas from outside. Its patterns run with Python's `re`, which
backtracks; a `$schema` inside a schema switches to another of its validators; `$ref`s can double
the work at each level. Here patterns run with RE2, one validator reads everything, and work is
counted.
"""

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import attrs
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from apps.accounts.patterns import BadPattern, compile_pattern

# The most checks of one document: subschemas applied, large values counting more.
MAX_CHECKS = 20_000
# Characters of a value that count as one check: an error repeats the whole value.
CHECK_CHARACTERS = 2_000
NOTHING_ELSE = Registry()  # a schema refers to itself alone; jsonschema would fetch other addresses
NO_FORMATS = FormatChecker(formats=())  # the format "regex" would compile with `re`
SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTED_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLE_SCHEMAS = (
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "if",
    "then",
    "else",
    "not",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)


class BadSchema(ValueError):
    """Raised for a schema that cannot be applied.

    The message names the place in it and says why.
    """


def require_schema(schema: Any) -> None:
    """Raise BadSchema for an invalid schema (draft 2020-12), or a pattern that RE2 cannot run."""
    try:
        Draft202012Validator.check_schema(schema, format_checker=NO_FORMATS)
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path)) or "it"
        raise BadSchema(f"Is not a JSON Schema: at {place}: {error.message[:200]}") from None
    except RecursionError:
        raise BadSchema("Is nested too deeply.") from None
    _require_keywords(schema)
    for place, pattern in _patterns(schema):
        _pattern(pattern, place)


def errors_in(schema: Any, document: Any) -> Iterator[ValidationError]:
    """Yield the document's problems. Raises BadSchema."""
    work = _Work(_sizes(document))
    token = _work.set(work)
    try:
        _require_keywords(schema)
        yield from _Validator(schema, registry=NOTHING_ELSE).iter_errors(document)
    except Unresolvable as error:
        raise BadSchema(f"it refers to something outside it: {error}") from None
    except RecursionError:
        raise BadSchema("it refers to itself without end, or is nested too deeply") from None
    finally:
        _work.reset(token)


# -- bounded work


@attrs.define
class _Work:
    """A budget for the work of checking one document."""

    sizes: Mapping[int, int]
    checks: int = 0

    def count(self, value: Any) -> None:
        size = len(value) if isinstance(value, str) else self.sizes.get(id(value), 0)
        self.checks += 1 + size // CHECK_CHARACTERS
        if self.checks > MAX_CHECKS:
            raise BadSchema(
                f"takes more than {MAX_CHECKS:,} checks; make the schema or the document smaller"
            )


_work: ContextVar[_Work] = ContextVar("work of the document that is checked")


def _sizes(document: Any) -> dict[int, int]:
    """Return the characters, roughly, of each list and object in the document, by identity."""
    sizes: dict[int, int] = {}
    pending = [(document, False)]
    while pending:
        value, is_second_visit = pending.pop()
        if not isinstance(value, dict | list):
            continue
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        if is_second_visit:
            sizes[id(value)] = sum(_size(part, sizes) for part in parts)
        else:
            pending.append((value, True))
            pending.extend((part, False) for part in parts)
    return sizes


def _size(value: Any, sizes: Mapping[int, int]) -> int:
    return len(value) if isinstance(value, str) else sizes.get(id(value), 8)


# -- keywords


def _pattern(pattern: Any, place: str) -> Any:
    try:
        return compile_pattern(str(pattern), place)
    except BadPattern as error:
        raise BadSchema(str(error)) from None


def _check_pattern(validator: Any, pattern: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _pattern(pattern, "pattern").search(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_pattern_properties(
    validator: Any, patterns: Any, value: Any, _: Any
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for pattern, subschema in patterns.items():
        compiled = _pattern(pattern, "patternProperties")
        for name, part in value.items():
            if compiled.search(name):
                yield from validator.descend(part, subschema, path=name, schema_path=pattern)


def _check_additional(
    validator: Any, rule: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    properties = schema.get("properties", {})
    compiled = [
        _pattern(pattern, "patternProperties") for pattern in schema.get("patternProperties", {})
    ]
    extras = [
        name
        for name in value
        if name not in properties
        and not any(compiled_pattern.search(name) for compiled_pattern in compiled)
    ]
    if rule is False and extras:
        names = ", ".join(repr(name) for name in extras[:10])
        yield ValidationError(f"Additional properties are not allowed ({names} unexpected)")
    elif isinstance(rule, dict):
        for name in extras:
            yield from validator.descend(value[name], rule, path=name)


def _check_unique(validator: Any, rule: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    if (
        rule is True
        and isinstance(value, list)
        and len({_key(part) for part in value}) < len(value)
    ):
        yield ValidationError(f"{value!r} has non-unique elements")


def _key(value: Any) -> Any:
    """Return a hashable that is equal for equal JSON values: 1 is 1.0, and not true."""
    if isinstance(value, dict):
        return ("object", frozenset((name, _key(part)) for name, part in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(_key, value)))
    return (type(value).__name__ if isinstance(value, bool | str) else "other", value)


_Validator = extend(
    Draft202012Validator,
    {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional,
        "uniqueItems": _check_unique,
    },
)
_iter_uncounted = _Validator.iter_errors
_descend_uncounted = _Validator.descend


def _iter_errors(self: Any, instance: Any, _schema: Any = None) -> Iterator[ValidationError]:
    _work.get().count(instance)
    return _iter_uncounted(self, instance)


def _descend(
    self: Any, instance: Any, schema: Any, *place: Any, **keywords: Any
) -> Iterator[ValidationError]:
    _work.get().count(instance)
    return _descend_uncounted(self, instance, schema, *place, **keywords)


def _evolve(self: Any, **changes: Any) -> Any:
    """Return this validator; jsonschema would switch to the one that a `$schema` names."""
    return attrs.evolve(self, **changes)


_Validator.iter_errors = _iter_errors
_Validator.descend = _descend
_Validator.evolve = _evolve


# -- contents of schemas


def _require_keywords(schema: Any) -> None:
    """Refuse the one combination that jsonschema would check with `re`."""
    names = {name for part in _parts(schema) if isinstance(part, dict) for name in part}
    if {"unevaluatedProperties", "patternProperties"} <= names:
        raise BadSchema(
            "unevaluatedProperties: is not supported beside patternProperties; use"
            " additionalProperties"
        )


def _parts(schema: Any) -> Iterator[Any]:
    """Yield the schema and all values in it.

    Values where no subschema is expected are included: a `$ref` may name any.
    """
    pending = [schema]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, dict):
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)


def _patterns(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield each pattern with its place, as `properties.name.pattern`."""
    pending: list[tuple[str, Any]] = [("", schema)]
    while pending:
        place, part = pending.pop()
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("pattern"), str):
            yield f"{place}pattern", part["pattern"]
        yield from (
            (f"{place}patternProperties", pattern) for pattern in part.get("patternProperties", {})
        )
        pending.extend(_subschemas(place, part))


def _subschemas(place: str, schema: dict) -> Iterator[tuple[str, Any]]:
    for keyword in SCHEMAS_BY_NAME:
        for name, part in schema.get(keyword, {}).items():
            yield f"{place}{keyword}.{name}.", part
    for keyword in LISTED_SCHEMAS:
        for number, part in enumerate(schema.get(keyword, [])):
            yield f"{place}{keyword}.{number}.", part
    for keyword in SINGLE_SCHEMAS:
        yield f"{place}{keyword}.", schema.get(keyword)
