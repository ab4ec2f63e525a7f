"""What differs between two configurations, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.runs.config import as_yaml
from apps.runs.differences import leaves

ABSENT = object()
LONGEST = 300  # characters of a value that are shown


@dataclass(frozen=True)
class Difference:
    """One field, and what stands in it before and after; "" where it is not there."""

    address: str
    before: str
    after: str


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """By dotted field, in their order; of a list of sections the members that differ, by their names (apps.runs.differences).

    A section that was switched on or off is one difference.
    """
    was, becomes = leaves(before), leaves(after)
    for name in {**was, **becomes}:
        if _is_within(name, becomes if name in was else was):
            continue
        if name not in was or name not in becomes or was[name] != becomes[name]:
            yield Difference(name, _said(_standing(before, was, name)), _said(_standing(after, becomes, name)))


def _is_within(name: str, others: Mapping[str, Any]) -> bool:
    """Whether the section that a field is of is a single value on the other side, and told there."""
    path = name.split(".")
    return any(".".join(path[:depth]) in others for depth in range(1, len(path)))


def _standing(sections: Mapping[str, Any], its_leaves: Mapping[str, Any], name: str) -> Any:
    """A field's value, a section's fields; ABSENT where there is no such field."""
    if name in its_leaves:
        return its_leaves[name]
    value: Any = sections
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return ABSENT
        value = value[step]
    return value


def _said(value: Any) -> str:
    """As YAML on one line, `0.1`, `on` and `off`, `–` for nothing; "" for what is not there."""
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
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}…"
