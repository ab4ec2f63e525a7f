"""A configuration as somebody writes it, changed field by field: only what was turned is written, all else stays as it stands."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.http import QueryDict
from pydantic import TypeAdapter, ValidationError, create_model

from apps.dashboard.knobs import ON, TAG, Knob, defaults, kinds_of
from apps.runs.algorithms.algorithm import KINDS, Algorithm
from apps.runs.algorithms.section import Section
from apps.runs.config import ConfigError, RunConfig, ScorerChoice, loaded

Edits = list[tuple[str, Any]]


@dataclass(frozen=True)
class Emptied:
    """A field that is to stand empty. It is left out, unless that stands for something: then `means` is written."""

    means: Any


def shown_values(said: Mapping[str, Any]) -> dict[str, Any]:
    """The whole configuration that `said` stands for, each field filled in by its own schema; what is wrong stays as typed."""
    return {name: _filled(name, said[name]) if name in said else value for name, value in defaults(RunConfig).items()}


def as_written(plan: RunConfig) -> dict[str, Any]:
    """The shortest that stands for this plan: what is as it would be anyway is left out."""
    usual = {**defaults(RunConfig), "algorithm": Algorithm(name=plan.algorithm.name).model_dump(mode="json")}
    found = _unlike(plan.model_dump(mode="json"), usual)
    if "rewards" in found:
        usual_scorer = ScorerChoice(scorer="-").model_dump(mode="json")
        found["rewards"] = [_unlike(row, usual_scorer) for row in found["rewards"]]
    return {**found, "algorithm": {TAG: plan.algorithm.name, **found.get("algorithm", {})}}


def _unlike(said: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """What of a section differs; with its name, if it is one of several."""
    found = {}
    for name, value in said.items():
        known = usual.get(name)
        if value == known:
            continue
        is_alike = isinstance(value, dict) and isinstance(known, dict) and value.get(TAG) == known.get(TAG)
        found[name] = _unlike(value, known) if is_alike else value
    return {TAG: said[TAG], **found} if found and TAG in said else found


def edits_in(posted: QueryDict, knobs: Iterable[Knob]) -> Edits:
    """What of a posted form differs from `knobs`, the form as it was drawn. Raises ConfigError for a field that is no YAML."""
    found = []
    for knob in knobs:
        said = SAID[knob.kind](knob, posted) if knob.kind in SAID else posted.get(knob.address, "").replace("\r\n", "\n").strip()
        if knob.kind not in ("switch", "names", "scorers") and knob.address not in posted:
            continue  # drawn by another version of the form
        if said != _drawn(knob):
            meant = _meant(knob, said)
            found.append((knob.address, Emptied(*knob.emptied) if knob.emptied and meant in (None, [], {}) and not said else meant))
    return found


def edited(said: Mapping[str, Any], edits: Edits) -> dict[str, Any]:
    """A copy of `said` with these values at their dotted addresses; None takes a field out, Emptied sees to it that it is empty."""
    after = copy.deepcopy(dict(said))
    for address, value in sorted(edits, key=lambda edit: not edit[0].endswith(f".{TAG}")):
        *path, last = address.split(".")
        if last == TAG and _is_choice(path):
            # Another kind of section has other fields: what the former one said is not for it.
            path, last, value = path[:-1], path[-1], {TAG: value}
        place = after
        for part in path:
            inner = place.get(part)
            if isinstance(inner, str):
                inner = {KINDS.get(part, TAG): inner}
            place[part] = place = inner if isinstance(inner, dict) else {}
        if value is None or isinstance(value, Emptied):
            place.pop(last, None)
        else:
            place[last] = value
        if isinstance(value, Emptied) and _shown_at(after, address):
            place[last] = value.means
    return after


def _shown_at(said: Mapping[str, Any], address: str) -> Any:
    """What stands at this address in the configuration that `said` stands for."""
    found: Any = shown_values(said)
    for part in address.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _is_choice(path: Sequence[str]) -> bool:
    """Whether the section at this path is one of several, or the algorithm, whose name fills in all the rest."""
    section: Any = RunConfig
    for part in path:
        info = section.model_fields.get(part) if section is not None else None
        if info is None:
            return False
        if kinds_of(info):
            return part == path[-1]
        section = info.annotation if isinstance(info.annotation, type) and issubclass(info.annotation, Section) else None
    return path == ["algorithm"]


def _meant(knob: Knob, said: Any) -> Any:
    """What a field's words mean to the schema; a number stays a text where it is none, for the schema to refuse."""
    match knob.kind:
        case "yaml":
            try:
                return loaded(said) if said else None
            except ConfigError as bad:
                raise ConfigError({knob.address: bad.problems["configuration"]}) from None
        case "switch" if knob.is_section:
            return {} if said else None
        case "whole" | "number":
            return _number(said)
        case "scorers":
            return _rewards(said, knob.rows)
        case "text" | "words" | "select" if not said:
            return None
    return said


def _number(text: str) -> Any:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _rewards(rows: Sequence[tuple[str, str]], before: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The scorers with their weights; one that was there keeps what else was said of it."""
    known = {row.get("scorer"): row for row in before}
    found = []
    for scorer, weight in rows:
        kept = {name: value for name, value in known.get(scorer, {}).items() if name != "weight" and value not in (None, [], {})}
        found.append({**kept, "scorer": scorer, **({} if weight == "1" else {"weight": _number(weight)})})
    return found or None


def _drawn(knob: Knob) -> Any:
    """What a browser posts of the field when nobody touches it."""
    match knob.kind:
        case "switch":
            return bool(knob.value)
        case "names":
            return list(knob.value)
        case "scorers":
            return [(row["scorer"], row["weight"]) for row in knob.value]
        case "rows":
            return [{name: str(value) for name, value in row.items() if value not in (None, "")} for row in knob.value]
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
        row = {key.removeprefix(start): posted[key].strip() for key in posted if key.startswith(start) and posted[key].strip()}
        rows += [row] if row.get(TAG) else []
    return rows


SAID: Mapping[str, Callable[[Knob, QueryDict], Any]] = {
    "switch": lambda knob, posted: posted.get(knob.address) == ON,
    "names": lambda knob, posted: posted.getlist(knob.address),
    "scorers": _posted_scorers,
    "rows": _posted_rows,
}


@cache
def _adapter(name: str) -> TypeAdapter:
    info = RunConfig.model_fields[name]
    return TypeAdapter(create_model(f"Only_{name}", __base__=Section, **{name: (info.annotation, info)}))


def _filled(name: str, said: Any) -> Any:
    """One top-level field with all that it stands for; where its schema refuses it, its defaults under what was said."""
    try:
        return _adapter(name).validate_python({name: said}).model_dump(mode="json")[name]
    except ValidationError:
        return _over(defaults(RunConfig)[name], said)


def _over(known: Any, said: Any) -> Any:
    if not isinstance(known, dict) or not isinstance(said, dict) or said.get(TAG, known.get(TAG)) != known.get(TAG):
        return said
    return {**known, **{name: _over(known.get(name), value) for name, value in said.items()}}
