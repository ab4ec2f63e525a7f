"""A section of a configuration as the fields of a form: words, bounds and choices come from its schema alone.

A field's address is dotted, `gold.rate`; that is its name in the form, and where its error stands.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from django.http import QueryDict
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from apps.runs.config import as_yaml
from apps.runs.people import Scale

TAG = "name"  # the field by which the sections of a choice are told apart
ON = "on"  # what a browser sends for a ticked box
UNITS = {"_s": "s", "_ms": "ms"}
LONG_TEXT = 1_000  # characters from which a text gets several lines


@dataclass(frozen=True)
class Knob:
    """One field.

    `kind`: choice, select, switch, whole, number, text, words (several lines), names (boxes), rows and scorers (tables), or yaml:
    what no single control stands for, written as it is in the configuration.
    """

    address: str
    label: str
    why: str
    kind: str
    value: Any = None
    unit: str = ""
    choices: tuple[tuple[str, str, str], ...] = ()  # what is posted, its name, a few words more
    bounds: Mapping[str, float] = field(default_factory=dict)
    longest: int | None = None
    wrong: str = ""
    is_section: bool = False  # a switch that brings a whole section with it
    rows: Sequence[Mapping[str, Any]] = ()  # what a table's rows hold beside what it shows
    emptied: tuple[Any, ...] = ()  # what the configuration says where nothing stands there; nothing, where something must

    @property
    def slug(self) -> str:
        """Its address as an HTML id."""
        return self.address.replace(".", "-")

    @property
    def step(self) -> str:
        """Of a number, as HTML has it; empty for what is none."""
        return {"whole": "1", "number": "any"}.get(self.kind, "")

    @property
    def is_several(self) -> bool:
        """It has several places to write in or to tick, under one legend."""
        return self.kind in ("choice", "names", "rows", "scorers")

    @property
    def slots(self) -> list[Mapping[str, Any]]:
        """Its rows, and the empty ones that may still be filled."""
        rows = list(self.value)
        return rows + [{}] * ((self.longest or 0) - len(rows))

    @property
    def range(self) -> str:
        """Its bounds in words: `1 to 20`, `above 0, up to 86,400`."""
        low, high = self.bounds.get("min"), self.bounds.get("max")
        if low is not None and high is not None:
            return f"{'above ' if 'above' in self.bounds else ''}{low:,.10g} to {high:,.10g}"
        if low is not None:
            return f"above {low:,.10g}" if "above" in self.bounds else f"{low:,.10g} or more"
        return "" if high is None else f"up to {high:,.10g}"


def knobs_of(
    section: type[BaseModel], values: Mapping[str, Any], labels: Mapping[str, str], wrong: Mapping[str, str], prefix: str = ""
) -> Iterator[Knob]:
    """The leaves of a section in its order. An optional section is a switch and then its fields, filled with their defaults.

    `values` is the section as nested dicts; `labels` and `wrong` go by dotted address.
    """
    for name, info in section.model_fields.items():
        address, value = f"{prefix}{name}", values.get(name)
        inner, is_optional = _inner(info)
        if kinds := kinds_of(info):
            yield from _one_of(address, info, kinds, value, labels, wrong)
        elif _is_section(inner):
            if is_optional:
                yield _knob(address, info, "switch", value is not None, labels, wrong, is_section=True)
            filled = value if isinstance(value, Mapping) else defaults(inner)
            yield from knobs_of(inner, filled, labels, wrong, f"{address}.")
        else:
            yield _leaf(address, info, inner, is_optional, value, labels, wrong)


def kinds_of(info: FieldInfo) -> dict[str, type[BaseModel]]:
    """The sections that a field may be, by the `name` that tells them apart; empty where it is not one of several."""
    kinds = [kind for kind in get_args(info.annotation) if _is_section(kind)]
    return {kind.model_fields[TAG].default: kind for kind in kinds} if len(kinds) > 1 else {}


def _one_of(
    address: str,
    info: FieldInfo,
    kinds: Mapping[str, type[BaseModel]],
    value: Any,
    labels: Mapping[str, str],
    wrong: Mapping[str, str],
) -> Iterator[Knob]:
    """Which of the sections it is, and then the fields of that one; of a name that there is not, no fields."""
    value = value if isinstance(value, Mapping) else {TAG: value} if value else {}
    choices = tuple((name, name.replace("_", " "), kind.model_fields[TAG].description or "") for name, kind in kinds.items())
    said = value.get(TAG, next(iter(kinds)))
    label = labels.get(f"{address}.{TAG}") or address.rpartition(".")[2].replace("_", " ").capitalize()
    yield _knob(f"{address}.{TAG}", info, "choice", said, {f"{address}.{TAG}": label}, wrong, choices=choices)
    if isinstance(said, str) and said in kinds:
        filled = {**defaults(kinds[said]), **value}
        inside = knobs_of(kinds[said], filled, labels, wrong, f"{address}.")
        yield from (knob for knob in inside if knob.address != f"{address}.{TAG}")


def defaults(section: type[BaseModel]) -> dict[str, Any]:
    """What a section starts with; None where its schema asks for a value."""
    found = {}
    for name, info in section.model_fields.items():
        default = None if info.is_required() else info.get_default(call_default_factory=True)
        found[name] = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
    return found


def values_in(section: type[BaseModel], form: QueryDict, prefix: str = "") -> dict[str, Any]:
    """What a posted form says, as nested dicts for the schema to judge: numbers are still texts, an empty one is None.

    An optional section whose switch is off is None.
    """
    said: dict[str, Any] = {}
    for name, info in section.model_fields.items():
        address = f"{prefix}{name}"
        inner, is_optional = _inner(info)
        if _is_section(inner):
            is_off = is_optional and form.get(address) != ON
            said[name] = None if is_off else values_in(inner, form, f"{address}.")
        else:
            said[name] = _said(address, inner, is_optional, form)
    return said


def placed_among(problems: Mapping[str, str], addresses: Collection[str]) -> dict[str, str]:
    """Problems by the form's addresses. What concerns several fields stands at the first one it names, else at the top ("")."""
    found: dict[str, str] = {}
    for place, words in problems.items():
        address = place
        if address not in addresses:
            address = _home(address, addresses) or _first_named(words, addresses)
        found[address] = "; ".join(filter(None, (found.get(address), _plain(words))))
    return found


def _home(address: str, addresses: Collection[str]) -> str:
    """The field that a place inside of it means: `rubric.0.low` → `rubric`."""
    while address and address not in addresses:
        address = address.rpartition(".")[0]
    return address


def _first_named(words: str, addresses: Collection[str]) -> str:
    spoken = [one for word in re.findall(r"[a-z_.]+", words) for one in (word.strip("."), word.strip(".").removeprefix("people."))]
    return next((word for word in spoken if word in addresses and ("_" in word or "." in word or f"`{word}" in words)), "")


def _plain(words: str) -> str:
    return words.replace("Input should be", "must be").replace("`", "")


def _said(address: str, inner: Any, is_optional: bool, form: QueryDict) -> Any:
    if rows := _row_section(inner):
        return _rows_in(rows, address, form)
    if get_origin(inner) is tuple:
        return form.getlist(address)
    if inner is bool:
        return form.get(address) == ON
    text = form.get(address, "")
    if inner is str:
        return text.replace("\r\n", "\n")
    return None if is_optional and not text.strip() else text.strip()


def _rows_in(section: type[BaseModel], address: str, form: QueryDict) -> list[dict[str, str]]:
    """The rows of a small table, `rubric.0.name` and so on; a row without its first field is no row."""
    first, *_ = section.model_fields
    rows = []
    for n in range(len([key for key in form if key.startswith(f"{address}.") and key.endswith(f".{first}")])):
        row = {name: form.get(f"{address}.{n}.{name}", "").strip() for name in section.model_fields}
        if row[first]:
            rows.append({name: said for name, said in row.items() if said or name == first})
    return rows


def _leaf(
    address: str, info: FieldInfo, inner: Any, is_optional: bool, value: Any, labels: Mapping[str, str], wrong: Mapping[str, str]
) -> Knob:
    if _row_section(inner) is Scale:
        rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else ()
        return _knob(address, info, "rows", rows, labels, wrong, longest=_longest(info))
    if _row_section(inner) or get_origin(inner) is dict:
        return _knob(address, info, "yaml", value if isinstance(value, str) else _written(value), labels, wrong)
    if get_origin(inner) is tuple:
        return _knob(address, info, "names", value or (), labels, wrong)
    if get_origin(inner) is Literal:
        return _knob(address, info, "choice", value, labels, wrong, choices=_named(get_args(inner)))
    if inner is bool:
        return _knob(address, info, "switch", bool(value), labels, wrong)
    if inner is str:
        kind = "words" if (_longest(info) or 0) > LONG_TEXT else "text"
        return _knob(address, info, kind, value or "", labels, wrong, longest=_longest(info))
    kind = "whole" if inner is int else "number"
    shown = "" if value is None else f"{value:.10g}" if isinstance(value, float) else value
    return _knob(address, info, kind, shown, labels, wrong, unit=_unit(address), bounds=_bounds(info))


def leaf_of(
    address: str, info: FieldInfo, value: Any, labels: Mapping[str, str], units: Mapping[str, str], wrong: Mapping[str, str]
) -> Knob:
    """One field that is no section, as it stands."""
    inner, can_be_empty = _inner(info)
    knob = _leaf(address, info, inner, can_be_empty, value, labels, wrong)
    return replace(knob, unit=knob.unit or units.get(address, ""))


def is_optional(info: FieldInfo) -> bool:
    return _inner(info)[1]


def _written(value: Any) -> str:
    return as_yaml(value).strip() if value else ""


def _knob(
    address: str, info: FieldInfo, kind: str, value: Any, labels: Mapping[str, str], wrong: Mapping[str, str], **more: Any
) -> Knob:
    label = labels.get(address) or address.rpartition(".")[2].replace("_", " ").capitalize()
    why = (info.description or "").replace("`", "")
    return Knob(address, label, why, kind, value, wrong=wrong.get(address, ""), emptied=_emptied(info), **more)


def _emptied(info: FieldInfo) -> tuple[Any, ...]:
    inner, can_be_empty = _inner(info)
    if can_be_empty:
        return (None,)
    return {tuple: ([],), dict: ({},)}.get(get_origin(inner), ())


def _inner(info: FieldInfo) -> tuple[Any, bool]:
    """A field's type without None, and whether None was in it."""
    if get_origin(info.annotation) not in (Union, UnionType):
        return info.annotation, False
    kinds = [kind for kind in get_args(info.annotation) if kind is not NoneType]
    return kinds[0], len(kinds) < len(get_args(info.annotation))


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _row_section(kind: Any) -> type[BaseModel] | None:
    """The section that the rows of `tuple[Section, ...]` are."""
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    return inner if _is_section(inner) else None


def _named(values: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    return tuple((value, value.replace("_", " "), "") for value in values)


def _unit(address: str) -> str:
    return next((unit for ending, unit in UNITS.items() if address.endswith(ending)), "")


def _bounds(info: FieldInfo) -> dict[str, float]:
    """`min` and `max` as an input takes them; `above` where the lower one is itself not allowed."""
    found: dict[str, float] = {}
    for bound in _constraints(info):
        match bound:
            case Ge():
                found["min"] = bound.ge
            case Gt():
                found |= {"min": bound.gt, "above": bound.gt}
            case Le():
                found["max"] = bound.le
            case Lt():
                found["max"] = bound.lt
    return found


def _longest(info: FieldInfo) -> int:
    return next((bound.max_length for bound in _constraints(info) if hasattr(bound, "max_length")), 0)


def _constraints(info: FieldInfo) -> Sequence[Any]:
    """The limits of a field, wherever they stand: on it, or on the annotated type it names (`Share`)."""
    inside = [part for kind in get_args(info.annotation) for part in getattr(kind, "__metadata__", ())]
    return [*info.metadata, *(limit for part in inside for limit in getattr(part, "metadata", [part]))]
