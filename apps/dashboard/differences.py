"""What differs between two configurations, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.runs.changing import flat
from apps.runs.config import as_yaml

LONGEST = 300  # characters of a value that are shown


@dataclass(frozen=True)
class Difference:
    """One field, and what stands in it before and after; "" where it is not there."""

    address: str
    before: str
    after: str


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """By dotted field, in their order; of a list of sections the members that differ."""
    was, becomes = _leaves(before), _leaves(after)
    for name in {**was, **becomes}:
        if name not in was or name not in becomes or was[name] != becomes[name]:
            yield Difference(name, _said(was, name), _said(becomes, name))


def nested(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What differs, as it was before, as fields of sections: `Run.change_config` puts it back with them."""
    was, becomes = flat(dict(before)), flat(dict(after))
    found: dict[str, Any] = {}
    for name, value in was.items():
        if name in becomes and becomes[name] == value:
            continue
        *path, last = name.split(".")
        place = found
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return found


def _leaves(sections: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in flat(dict(sections)).items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            found |= {f"{name}.{place}": leaf for place, leaf in flat({str(n): one for n, one in enumerate(value)}).items()}
        else:
            found[name] = value
    return found


def _said(leaves: Mapping[str, Any], name: str) -> str:
    """As YAML on one line, `0.1`, `on` and `off`, `–` for nothing."""
    value = leaves.get(name)
    if value is None:
        return "–" if name in leaves else ""
    if isinstance(value, bool):
        return "on" if value else "off"
    words = value if isinstance(value, str) else as_yaml(value).removesuffix("...\n").strip()
    words = " ".join(words.split())
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}…"
