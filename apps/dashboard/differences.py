"""The differences between two configurations, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.runs.differences import leaves
from apps.runs.parsing import as_yaml

ABSENT = object()
MAX_VALUE_LENGTH = 300  # characters of a value that are shown


@dataclass(frozen=True)
class Difference:
    """One field with its value before and after; "" where it does not exist."""

    address: str
    before: str
    after: str


def list_field_differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield the differences by dotted field, in order (apps.runs.differences).

    Lists of sections are compared by the names of their members. A section that was switched on or
    off is one difference.
    """
    was = leaves(before)
    becomes = leaves(after)
    for name in {**was, **becomes}:
        if _is_within(name, becomes if name in was else was):
            continue
        if name not in was or name not in becomes or was[name] != becomes[name]:
            yield Difference(
                name,
                _format_value(_value_or_section(before, was, name)),
                _format_value(_value_or_section(after, becomes, name)),
            )


def _is_within(name: str, other_fields: Mapping[str, Any]) -> bool:
    """Tell whether the field's section is a single value on the other side, reported there."""
    path = name.split(".")
    return any(".".join(path[:depth]) in other_fields for depth in range(1, len(path)))


def _value_or_section(sections: Mapping[str, Any], its_leaves: Mapping[str, Any], name: str) -> Any:
    """Return a field's value or a section's fields; ABSENT if there is no such field."""
    if name in its_leaves:
        return its_leaves[name]
    value: Any = sections
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return ABSENT
        value = value[step]
    return value


def _format_value(value: Any) -> str:
    """Format a value on one line: YAML, `on` or `off`, `–` for null, "" if absent."""
    if value is ABSENT:
        return ""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    words = value if isinstance(value, str) else as_yaml(value).removesuffix("...\n").strip()
    if isinstance(value, Mapping):
        words = "; ".join(line for line in words.splitlines())
    words = " ".join(words.split())
    return words if len(words) <= MAX_VALUE_LENGTH else f"{words[:MAX_VALUE_LENGTH]}…"
