"""Apply single edits to a configuration, keeping everything else as its author wrote it."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.http import QueryDict
from pydantic import TypeAdapter, ValidationError, create_model

from apps.dashboard.knobs import ON, TAG, Knob, defaults, section_kinds
from apps.runs.algorithms.algorithm import KINDS, Algorithm
from apps.runs.algorithms.section import Section
from apps.runs.config import ConfigError, RunConfig, ScorerChoice
from apps.runs.parsing import load_yaml

Edits = list[tuple[str, Any]]


@dataclass(frozen=True)
class Emptied:
    """A field that must be empty.

    It is left out of the YAML unless a default would fill it; then `means` is written.
    """

    means: Any


def shown_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the complete configuration that `config` stands for.

    Each field is filled in by its own schema; invalid ones stay as typed.
    """
    return {
        name: _with_defaults(name, config[name]) if name in config else value
        for name, value in defaults(RunConfig).items()
    }


def as_written(plan: RunConfig) -> dict[str, Any]:
    """Return the shortest configuration equal to this plan, without default values."""
    usual_algorithm = Algorithm.model_validate({"name": plan.algorithm.name})
    usual = {
        **defaults(RunConfig),
        "algorithm": usual_algorithm.model_dump(mode="json"),
    }
    differing = _differing_fields(plan.model_dump(mode="json"), usual)
    if "rewards" in differing:
        usual_scorer = ScorerChoice(scorer="-").model_dump(mode="json")
        differing["rewards"] = [
            _differing_fields(row, usual_scorer) for row in differing["rewards"]
        ]
    return {**differing, "algorithm": {TAG: plan.algorithm.name, **differing.get("algorithm", {})}}


def _differing_fields(config: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a section that differ, with its name if it is one of several."""
    differing = {}
    for name, value in config.items():
        usual_value = usual.get(name)
        if value == usual_value:
            continue
        if (
            isinstance(value, dict)
            and isinstance(usual_value, dict)
            and _are_alike(value, usual_value)
        ):
            differing[name] = _differing_fields(value, usual_value)
        else:
            differing[name] = value
    return {TAG: config[TAG], **differing} if differing and TAG in config else differing


def _are_alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return first.get(TAG) == second.get(TAG)


def edits_in(posted: QueryDict, knobs: Iterable[Knob]) -> tuple[Edits, dict[str, str]]:
    """Return the fields of a posted form that differ from `knobs`, the form as it was shown.

    The second value has the errors of fields that are not YAML, by address.
    """
    edits: Edits = []
    wrong: dict[str, str] = {}
    for knob in knobs:
        if knob.kind not in ("switch", "names", "scorers") and knob.address not in posted:
            continue  # shown by another version of the form
        posted_value = (
            READERS[knob.kind](knob, posted) if knob.kind in READERS else typed_text(knob, posted)
        )
        if posted_value == _unchanged_post(knob):
            continue
        try:
            edits.append((knob.address, _edit(knob, posted_value)))
        except ConfigError as error:
            wrong |= error.problems
    return edits, wrong


def typed_text(knob: Knob, posted: QueryDict) -> str:
    return posted.get(knob.address, "").replace("\r\n", "\n").strip()


def _edit(knob: Knob, value: Any) -> Any:
    meant = _parse_value(knob, value)
    is_emptied = knob.emptied and meant in (None, [], {}) and not value
    return Emptied(*knob.emptied) if is_emptied else meant


def edited(config: Mapping[str, Any], edits: Edits) -> dict[str, Any]:
    """Return a copy of `config` with these values at their dotted addresses.

    None removes a field, Emptied makes it empty.
    """
    after = copy.deepcopy(dict(config))
    for address, value in sorted(edits, key=lambda edit: not edit[0].endswith(f".{TAG}")):
        *path, last = address.split(".")
        if last == TAG and _is_choice(path):
            # Another kind of section has other fields: those of the former one do not apply.
            path, last, value = path[:-1], path[-1], {TAG: value}
        place = after
        for part in path:
            inner = _child_at(place, part)
            if isinstance(inner, str):
                inner = {KINDS.get(part, TAG): inner}
            place[part] = place = inner if isinstance(inner, dict) else {}
        if value is None or isinstance(value, Emptied):
            place.pop(last, None)
        else:
            place[last] = value
        if isinstance(value, Emptied) and shown_at(after, address):
            place[last] = value.means
    return after


def _child_at(place: Any, part: str) -> Any:
    """Return a field of a section, or a row of a table by its number; None if it is not there."""
    if isinstance(place, list):
        return place[int(part)] if part.isdigit() and int(part) < len(place) else None
    return place.get(part) if isinstance(place, Mapping) else None


def back_to_default(config: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return a copy of `config` that leaves this field to its default.

    If it names the kind of a section, the section is left out, as its fields go with the kind.
    """
    path, _, last = address.rpartition(".")
    if last == TAG and _is_choice(path.split(".")):
        address = path
    after = edited(config, [(address, None)])
    section = address.partition(".")[0]
    if after.get(section) == {} and defaults(RunConfig)[section] is not None:
        del after[section]
    return after


def default_at(config: Mapping[str, Any], address: str) -> Any:
    """Return the value that the field would have if `config` left it out."""
    section = address.partition(".")[0]
    inside = {section: config[section]} if section in config else {}
    return shown_at(back_to_default(inside, address), address)


def written_addresses(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the addresses of the fields that `config` has, and of the sections around them."""
    for name, value in config.items():
        address = f"{prefix}{name}"
        yield address
        if isinstance(value, Mapping):
            yield from written_addresses(value, f"{address}.")
        elif isinstance(value, str):  # such as `algorithm: gspo`
            yield f"{address}.{KINDS.get(str(name), TAG)}"


def shown_at(config: Mapping[str, Any], address: str) -> Any:
    """Return the value at this address in the configuration that `config` stands for."""
    first, *path = address.split(".")
    value: Any = (
        _with_defaults(first, config[first]) if first in config else defaults(RunConfig)[first]
    )
    for part in path:
        value = _child_at(value, part)
    return value


def _is_choice(path: Sequence[str]) -> bool:
    """Tell whether the section at this path is one of several.

    The algorithm is one, too: its name fills in all the rest.
    """
    section: Any = RunConfig
    for part in path:
        info = section.model_fields.get(part) if section is not None else None
        if info is None:
            return False
        if section_kinds(info):
            return part == path[-1]
        section = (
            info.annotation
            if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
            else None
        )
    return path == ["algorithm"]


def _parse_value(knob: Knob, value: Any) -> Any:
    """Convert a field's text to its value; an invalid number stays a text for the schema."""
    match knob.kind:
        case "yaml":
            try:
                return load_yaml(value) if value else None
            except ConfigError as bad:
                raise ConfigError({knob.address: bad.problems["configuration"]}) from None
        case "switch" if knob.is_section:
            return {} if value else None
        case "whole" | "number":
            return _number(value)
        case "scorers":
            return _rewards(value, knob.rows)
        case "text" | "words" | "select" if not value:
            return None
    return value


def _number(text: str) -> Any:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _rewards(
    rows: Sequence[tuple[str, str]], before: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]] | None:
    """Return the scorers with their weights; known ones keep their other settings."""
    row_by_scorer = {row.get("scorer"): row for row in before}
    rewards = []
    for scorer, weight in rows:
        other_settings = {
            name: value
            for name, value in row_by_scorer.get(scorer, {}).items()
            if name != "weight" and value not in (None, [], {})
        }
        rewards.append(
            {
                **other_settings,
                "scorer": scorer,
                **({} if weight == "1" else {"weight": _number(weight)}),
            }
        )
    return rewards or None


def _unchanged_post(knob: Knob) -> Any:
    """Return the value that a browser posts of an unchanged field."""
    match knob.kind:
        case "switch":
            return bool(knob.value)
        case "names":
            return list(knob.value)
        case "scorers":
            return [(row["scorer"], row["weight"]) for row in knob.value]
        case "rows":
            return [
                {name: str(value) for name, value in row.items() if value not in (None, "")}
                for row in knob.value
            ]
    return "" if knob.value is None else str(knob.value).replace("\r\n", "\n").strip()


def _posted_scorers(knob: Knob, posted: QueryDict) -> list[tuple[str, str]]:
    rows = []
    for n in range(len(knob.slots)):
        if scorer := posted.get(f"{knob.address}.{n}.scorer", "").strip():
            rows.append((scorer, posted.get(f"{knob.address}.{n}.weight", "").strip() or "1"))
    return rows


def _posted_rows(knob: Knob, posted: QueryDict) -> list[dict[str, str]]:
    rows = []
    for n in range(len(knob.slots)):
        start = f"{knob.address}.{n}."
        row = {
            key.removeprefix(start): text
            for key in posted
            if key.startswith(start) and (text := posted.get(key, "").strip())
        }
        rows += [row] if row.get(TAG) else []
    return rows


READERS: Mapping[str, Callable[[Knob, QueryDict], Any]] = {
    "switch": lambda knob, posted: posted.get(knob.address) == ON,
    "names": lambda knob, posted: posted.getlist(knob.address),
    "scorers": _posted_scorers,
    "rows": _posted_rows,
}


@cache
def _adapter(name: str) -> TypeAdapter:
    info = RunConfig.model_fields[name]
    fields: dict[str, Any] = {name: (info.annotation, info)}
    return TypeAdapter(create_model(f"Only_{name}", __base__=Section, **fields))


def _with_defaults(name: str, value: Any) -> Any:
    """Return one top-level field with its defaults filled in.

    If its schema refuses it, the defaults are put under what was written.
    """
    try:
        return _adapter(name).validate_python({name: value}).model_dump(mode="json")[name]
    except ValidationError:
        return _merged(defaults(RunConfig)[name], value)


def _merged(current: Any, changed_value: Any) -> Any:
    if (
        not isinstance(current, dict)
        or not isinstance(changed_value, dict)
        or changed_value.get(TAG, current.get(TAG)) != current.get(TAG)
    ):
        return changed_value
    return {
        **current,
        **{name: _merged(current.get(name), value) for name, value in changed_value.items()},
    }
