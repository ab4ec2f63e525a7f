"""A configuration section as form fields, with labels, bounds and choices from its schema alone.

A field's address is dotted, such as `gold.rate`; it is its name in the form, and its errors use it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from django.http import QueryDict
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from apps.runs.config import ConfigError
from apps.runs.parsing import as_yaml, load_yaml
from apps.runs.people import Scale

TAG = "name"  # the field that distinguishes the sections of a choice
ON = "on"  # what a browser sends for a ticked box
UNITS = {"_s": "s", "_ms": "ms"}
LONG_TEXT = 1_000  # characters from which a text gets a textarea


@dataclass(frozen=True)
class Knob:
    """One form field.

    `kind` is choice, select, picker (a searchable list), switch, whole, number, text, words
    (several lines), names (boxes), rows and scorers (tables), or yaml: a value that no single
    control represents, written as in the configuration.
    """

    address: str
    label: str
    why: str
    kind: str
    value: Any = None
    unit: str = ""
    choices: tuple[tuple[str, str, str], ...] = ()  # (posted value, label, description)
    bounds: Mapping[str, float] = field(default_factory=dict)
    max_length: int | None = None
    wrong: str = ""
    is_section: bool = False  # a switch for a whole section
    rows: Sequence[Mapping[str, Any]] = ()  # values of the table's rows that it does not show
    emptied: tuple[Any, ...] = ()  # values that an empty field stands for; none if it is required
    usual: str | None = None  # its default in words, if its value differs and can go back to it
    unlisted: int = 0  # how many choices are left out of a list of names; they can be written
    first_choices: int = 0  # how many of a picker's choices are recommended: they come first

    @property
    def slug(self) -> str:
        """Return its address as an HTML id."""
        return self.address.replace(".", "-")

    @property
    def step(self) -> str:
        """Return the HTML step attribute of a number; empty for other kinds."""
        return {"whole": "1", "number": "any"}.get(self.kind, "")

    @property
    def is_changed(self) -> bool:
        """Tell whether its value differs from a default that it can go back to."""
        return self.usual is not None

    @property
    def chosen(self) -> tuple[str, str, str]:
        """Return the chosen one of its choices."""
        return next((choice for choice in self.choices if choice[0] == self.value), ("", "–", ""))

    @property
    def choice_groups(self) -> list[tuple[str, tuple[tuple[str, str, str], ...]]]:
        """Return a picker's choices under their titles."""
        first = self.choices[: self.first_choices]
        return [("Recommended", first), ("All others", self.choices[self.first_choices :])]

    @property
    def input_type(self) -> str:
        """Return the HTML type of a number's input: "text" for a value that is no number.

        A browser would empty an input of type number, and what was typed would be lost.
        """
        try:
            float(self.value or 0)
        except (TypeError, ValueError):
            return "text"
        return "number"

    @property
    def is_several(self) -> bool:
        """Tell whether the field has several inputs under one legend."""
        return self.kind in ("choice", "picker", "names", "rows", "scorers")

    @property
    def slots(self) -> list[Mapping[str, Any]]:
        """Return its rows, and the empty ones that may still be filled."""
        rows = list(self.value)
        return rows + [{}] * ((self.max_length or 0) - len(rows))

    @property
    def range(self) -> str:
        """Describe its bounds: `1 to 20`, `above 0, up to 86,400`."""
        low = self.bounds.get("min")
        high = self.bounds.get("max")
        if low is not None and high is not None:
            return f"{'above ' if 'above' in self.bounds else ''}{low:,.10g} to {high:,.10g}"
        if low is not None:
            return f"above {low:,.10g}" if "above" in self.bounds else f"{low:,.10g} or more"
        return "" if high is None else f"up to {high:,.10g}"


def section_knobs(
    section: type[BaseModel],
    values: Mapping[str, Any],
    labels: Mapping[str, str],
    wrong: Mapping[str, str],
    prefix: str = "",
) -> Iterator[Knob]:
    """Yield the fields of a section in its order.

    An optional section is a switch followed by its fields, filled with defaults. `values` is the
    section as nested dicts; `labels` and `wrong` go by dotted address.
    """
    for name, info in section.model_fields.items():
        address = f"{prefix}{name}"
        value = values.get(name)
        inner, is_optional = _inner(info)
        if kinds := section_kinds(info):
            yield from _one_of(address, info, kinds, value, labels, wrong)
        elif _is_section(inner):
            if is_optional:
                yield _knob(
                    address, info, "switch", value is not None, labels, wrong, is_section=True
                )
            filled = value if isinstance(value, Mapping) else defaults(inner)
            yield from section_knobs(inner, filled, labels, wrong, f"{address}.")
        else:
            yield _leaf(address, info, inner, is_optional, value, labels, wrong)


def section_kinds(info: FieldInfo) -> dict[str, type[BaseModel]]:
    """Return the sections that a field may hold, by their `name`; empty for a single section."""
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
    """Yield the choice of a section, and then the fields of the chosen one.

    An unknown name yields no fields.
    """
    value = value if isinstance(value, Mapping) else {TAG: value} if value else {}
    choices = tuple(
        (name, name.replace("_", " "), kind.model_fields[TAG].description or "")
        for name, kind in kinds.items()
    )
    chosen = value.get(TAG, next(iter(kinds)))
    label = (
        labels.get(f"{address}.{TAG}") or address.rpartition(".")[2].replace("_", " ").capitalize()
    )
    yield _knob(
        f"{address}.{TAG}",
        info,
        "choice",
        chosen,
        {f"{address}.{TAG}": label},
        wrong,
        choices=choices,
    )
    if isinstance(chosen, str) and chosen in kinds:
        filled = {**defaults(kinds[chosen]), **value}
        inside = section_knobs(kinds[chosen], filled, labels, wrong, f"{address}.")
        yield from (knob for knob in inside if knob.address != f"{address}.{TAG}")


def defaults(section: type[BaseModel]) -> dict[str, Any]:
    """Return the defaults of a section; None for required values. Do not change the values."""
    return dict(_defaults(section))


@cache
def _defaults(section: type[BaseModel]) -> dict[str, Any]:
    values = {}
    for name, info in section.model_fields.items():
        default = None if info.is_required() else info.get_default(call_default_factory=True)
        values[name] = (
            default.model_dump(mode="json") if isinstance(default, BaseModel) else default
        )
    return values


def values_in(section: type[BaseModel], form: QueryDict, prefix: str = "") -> dict[str, Any]:
    """Return the posted form as nested dicts for the schema to validate.

    Numbers are still texts, an empty value is None, and so is an optional section whose switch is
    off.
    """
    values: dict[str, Any] = {}
    for name, info in section.model_fields.items():
        address = f"{prefix}{name}"
        inner, is_optional = _inner(info)
        if _is_section(inner):
            is_off = is_optional and form.get(address) != ON
            values[name] = None if is_off else values_in(inner, form, f"{address}.")
        else:
            values[name] = _posted_value(address, inner, is_optional, form)
    return values


def placed_among(problems: Mapping[str, str], addresses: Collection[str]) -> dict[str, str]:
    """Assign problems to the form's addresses.

    A problem of several fields goes to the first one it names, else to the top ("").
    """
    placed: dict[str, str] = {}
    for place, words in problems.items():
        address = place
        if address not in addresses:
            address = _home(address, addresses) or _first_named(words, addresses)
        placed[address] = "; ".join(filter(None, (placed.get(address), _plain(words))))
    return placed


def _home(address: str, addresses: Collection[str]) -> str:
    """Return the field that contains a place: `rubric.0.low` → `rubric`."""
    while address and address not in addresses:
        address = address.rpartition(".")[0]
    return address


def _first_named(words: str, addresses: Collection[str]) -> str:
    candidates = [
        candidate
        for word in re.findall(r"[a-z_.]+", words)
        for candidate in (word.strip("."), word.strip(".").removeprefix("people."))
    ]
    return next(
        (
            word
            for word in candidates
            if word in addresses and ("_" in word or "." in word or f"`{word}" in words)
        ),
        "",
    )


def _plain(words: str) -> str:
    return words.replace("Input should be", "must be").replace("`", "")


def _posted_value(address: str, inner: Any, is_optional: bool, form: QueryDict) -> Any:
    if rows := _row_section(inner):
        return _rows_in(rows, address, form)
    if get_origin(inner) is tuple:
        return form.getlist(address)
    if inner is bool:
        return form.get(address) == ON
    text = form.get(address, "")
    if get_origin(inner) is dict:
        return _mapping_in(text)
    if inner is str:
        return text.replace("\r\n", "\n")
    return None if is_optional and not text.strip() else text.strip()


def _mapping_in(text: str) -> Any:
    """Read a mapping in YAML; what is none stays a text, which the schema refuses."""
    try:
        return load_yaml(text) if text.strip() else {}
    except ConfigError:
        return text


def _rows_in(section: type[BaseModel], address: str, form: QueryDict) -> list[dict[str, str]]:
    """Return the rows of a small table, `rubric.0.name` and so on.

    Rows without their first field are skipped.
    """
    first, *_ = section.model_fields
    rows = []
    for n in range(
        len([key for key in form if key.startswith(f"{address}.") and key.endswith(f".{first}")])
    ):
        row = {name: form.get(f"{address}.{n}.{name}", "").strip() for name in section.model_fields}
        if row[first]:
            rows.append({name: value for name, value in row.items() if value or name == first})
    return rows


def _leaf(
    address: str,
    info: FieldInfo,
    inner: Any,
    is_optional: bool,
    value: Any,
    labels: Mapping[str, str],
    wrong: Mapping[str, str],
) -> Knob:
    if _row_section(inner) is Scale:
        rows = (
            [row for row in value if isinstance(row, Mapping)]
            if isinstance(value, list | tuple)
            else ()
        )
        return _knob(address, info, "rows", rows, labels, wrong, max_length=_longest(info))
    if _row_section(inner) or get_origin(inner) is dict:
        return _knob(
            address,
            info,
            "yaml",
            value if isinstance(value, str) else _yaml_text(value),
            labels,
            wrong,
        )
    if get_origin(inner) is tuple:
        return _knob(address, info, "names", value or (), labels, wrong)
    if get_origin(inner) is Literal:
        return _knob(
            address, info, "choice", value, labels, wrong, choices=_as_choices(get_args(inner))
        )
    if inner is bool:
        return _knob(address, info, "switch", bool(value), labels, wrong)
    if inner is str:
        kind = "words" if (_longest(info) or 0) > LONG_TEXT else "text"
        return _knob(address, info, kind, value or "", labels, wrong, max_length=_longest(info))
    kind = "whole" if inner is int else "number"
    text = "" if value is None else f"{value:.10g}" if isinstance(value, float) else value
    return _knob(
        address, info, kind, text, labels, wrong, unit=_unit(address), bounds=_bounds(info)
    )


def build_leaf_knob(
    address: str,
    info: FieldInfo,
    value: Any,
    labels: Mapping[str, str],
    units: Mapping[str, str],
    wrong: Mapping[str, str],
) -> Knob:
    """Return one field that is not a section, with its value."""
    inner, can_be_empty = _inner(info)
    knob = _leaf(address, info, inner, can_be_empty, value, labels, wrong)
    return replace(knob, unit=knob.unit or units.get(address, ""))


def is_optional(info: FieldInfo) -> bool:
    return _inner(info)[1]


def _yaml_text(value: Any) -> str:
    return as_yaml(value).strip() if value else ""


def _knob(
    address: str,
    info: FieldInfo,
    kind: str,
    value: Any,
    labels: Mapping[str, str],
    wrong: Mapping[str, str],
    **more: Any,
) -> Knob:
    label = labels.get(address) or address.rpartition(".")[2].replace("_", " ").capitalize()
    why = (info.description or "").replace("`", "")
    return Knob(
        address,
        label,
        why,
        kind,
        value,
        wrong=wrong.get(address, ""),
        emptied=_empty_values(info),
        **more,
    )


def _empty_values(info: FieldInfo) -> tuple[Any, ...]:
    inner, can_be_empty = _inner(info)
    if can_be_empty:
        return (None,)
    return {tuple: ([],), dict: ({},)}.get(get_origin(inner), ())


def _inner(info: FieldInfo) -> tuple[Any, bool]:
    """Return a field's type without None, and whether None was allowed."""
    if get_origin(info.annotation) not in (Union, UnionType):
        return info.annotation, False
    kinds = [kind for kind in get_args(info.annotation) if kind is not NoneType]
    return kinds[0], len(kinds) < len(get_args(info.annotation))


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _row_section(kind: Any) -> type[BaseModel] | None:
    """Return the section type of the rows of `tuple[Section, ...]`, or None."""
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    return inner if _is_section(inner) else None


def _as_choices(values: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    return tuple((value, value.replace("_", " "), "") for value in values)


def _unit(address: str) -> str:
    return next((unit for ending, unit in UNITS.items() if address.endswith(ending)), "")


def _bounds(info: FieldInfo) -> dict[str, float]:
    """Return `min` and `max` for an input; `above` means that the lower bound is exclusive."""
    bounds: dict[str, float] = {}
    for bound in _constraints(info):
        match bound:
            case Ge(ge=int() | float() as limit):
                bounds["min"] = limit
            case Gt(gt=int() | float() as limit):
                bounds |= {"min": limit, "above": limit}
            case Le(le=int() | float() as limit):
                bounds["max"] = limit
            case Lt(lt=int() | float() as limit):
                bounds["max"] = limit
    return bounds


def _longest(info: FieldInfo) -> int:
    return next(
        (bound.max_length for bound in _constraints(info) if hasattr(bound, "max_length")), 0
    )


def _constraints(info: FieldInfo) -> Sequence[Any]:
    """Return the limits of a field, from the field or from its annotated type (`Share`)."""
    inside = [
        part for kind in get_args(info.annotation) for part in getattr(kind, "__metadata__", ())
    ]
    return [
        *info.metadata,
        *(limit for part in inside for limit in getattr(part, "metadata", [part])),
    ]
