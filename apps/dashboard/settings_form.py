"""All settings of a run as one form: fields for those that may change, the rest with the reason.

Labels, bounds and descriptions come from the schema (apps.dashboard.knobs). Optional sections and
lists of sections are small YAML texts; a scorer's weight is a field of its own.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_origin

from django.http import QueryDict
from pydantic import BaseModel

from apps.dashboard import people_form
from apps.dashboard.differences import Difference, list_field_differences
from apps.dashboard.knobs import ON, Knob, build_leaf_knob, is_optional, placed_among
from apps.runs.changing import changed, flat, why_fixed
from apps.runs.config import ConfigError, RunConfig, ScorerChoice
from apps.runs.differences import undo_change
from apps.runs.models import Run
from apps.runs.parsing import as_yaml, load_yaml
from apps.streaming.models import Event

LABELS = {
    **{f"people.{address}": label for address, label in people_form.LABELS.items()},
    "algorithm.kl.coefficient": "KL coefficient",
    "algorithm.kl.target": "KL target",
    "algorithm.kl.horizon": "KL horizon",
    "max_staleness": "Max staleness",
}
UNITS = {
    **{f"people.{address}": unit for address, unit in people_form.UNITS.items()},
    "sampling.max_tokens": "tokens",
    "sampling.time_s": "s",
    "max_staleness": "versions",
    "over_rollout": "groups",
    "checkpoints.every": "steps",
    "checkpoints.weights": "versions",
    "algorithm.kl.target": "nats/token",
    "algorithm.kl.horizon": "rollouts",
}
TITLES = {
    "": "General",
    "rewards": "Rewards",
    "sampling": "Sampling",
    "optimizer": "Optimizer",
    "algorithm": "Algorithm",
    "people": "People",
    "pipeline": "Pipeline",
    "checkpoints": "Checkpoints",
    "hacking": "Reward hacking",
}
FIRST = (
    "optimizer",
    "algorithm",
    "sampling",
    "rewards",
    "",
    "people",
    "pipeline",
)  # the settings that are changed most come first
MAX_YAML_LENGTH = 20_000


@dataclass(frozen=True)
class Fact:
    """A setting that cannot be changed any more: `value` as YAML, and `why`."""

    address: str
    value: str
    why: str


@dataclass(frozen=True)
class Part:
    """One section of the configuration: fields first, then fixed settings."""

    name: str
    title: str
    knobs: tuple[Knob, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class SettingsForm:
    """The form; `fields` are the changes as `Run.change_config` takes them.

    `differences` are their effects; `wrong` are the errors by address.
    """

    parts: tuple[Part, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)
    seen: str = ""

    @property
    def general(self) -> str:
        """Return the error that belongs to no shown field."""
        return self.wrong.get("", "")

    @property
    def digest(self) -> str:
        """Return a digest of the differences, so that those applied are those shown."""
        return hashlib.sha256(repr(self.differences).encode()).hexdigest()[:16]


# Shown by every configuration form when somebody else changed the configuration since it was
# opened.
SAVE_AGAIN = (
    "Someone else changed the configuration in the meantime. To overwrite their changes with"
    " yours, save again."
)


def digest_settings(run: Run) -> str:
    """Return a digest of the configuration, to notice a change since the form was opened."""
    return hashlib.sha256(json.dumps(run.config, sort_keys=True).encode()).hexdigest()[:16]


def load_settings_form(run: Run) -> SettingsForm:
    """Return the form for the present configuration."""
    return SettingsForm(_parts(run, run.settings, {}, {}), seen=digest_settings(run))


def read_settings_form(run: Run, posted: QueryDict) -> SettingsForm:
    """Return the posted form, validated as the run would; nothing is written."""
    plan = run.settings
    texts = {knob.address: _text_in(knob, posted) for knob in _editable(run, plan)}
    current_texts = {knob.address: _text_of(knob) for knob in _editable(run, plan)}
    wrong: dict[str, str] = {}
    turned: dict[str, Any] = {}
    for knob in _editable(run, plan):
        if texts[knob.address] != current_texts[knob.address]:
            try:
                turned[knob.address] = _value_in(knob, texts[knob.address])
            except ConfigError as error:
                wrong[knob.address] = "; ".join(error.problems.values())
    if wrong:
        return SettingsForm(
            _parts(run, plan, texts, wrong), wrong=wrong, seen=posted.get("seen", "")
        )
    return replace(
        change_settings_form(run, _nested(run, turned), texts), seen=posted.get("seen", "")
    )


def putting_back(run: Run, event: Event) -> SettingsForm:
    """Return the form that reverts a recorded change; later changes of other fields stay."""
    now = run.settings.model_dump(mode="json")
    return change_settings_form(
        run, undo_change(event.payload["before"], event.payload["after"], now), {}
    )


def change_settings_form(
    run: Run, fields: Mapping[str, Any], texts: Mapping[str, str]
) -> SettingsForm:
    """Return the form with these fields changed.

    `texts` are the values shown in its fields; other fields show what they would become.
    """
    plan = run.settings
    try:
        after = changed(plan, dict(fields), has_begun=run.state != Run.State.CREATED)
    except ConfigError as error:
        wrong = _place_problems(run, plan, error.problems)
        return SettingsForm(_parts(run, plan, texts, wrong), wrong=wrong, seen=digest_settings(run))
    differences = list_field_differences(
        plan.model_dump(mode="json"), after.model_dump(mode="json")
    )
    return SettingsForm(
        _parts(run, after, texts, {}), fields, tuple(differences), seen=digest_settings(run)
    )


# -- the configuration as knobs


def settings_knobs(plan: BaseModel, wrong: Mapping[str, str], prefix: str = "") -> Iterator[Knob]:
    """Yield the fields of a section; where sections are a choice, those of the chosen one."""
    for name, info in type(plan).model_fields.items():
        address = f"{prefix}{name}"
        value = getattr(plan, name)
        if isinstance(value, BaseModel) and not is_optional(info):
            yield from settings_knobs(value, wrong, f"{address}.")
        elif address == "rewards":
            yield from _scorers(value, wrong)
        elif isinstance(value, tuple) and _is_of_words(info.annotation):
            yield _text_knob(address, info.description, value, wrong)
        elif _may_be_section(info.annotation):
            yield _yaml(address, info.description, _dumped(value), wrong)
        else:
            yield build_leaf_knob(address, info, value, LABELS, UNITS, wrong)


def _scorers(chosen: tuple[ScorerChoice, ...], wrong: Mapping[str, str]) -> Iterator[Knob]:
    for number, choice in enumerate(chosen):
        labels = {f"rewards.{number}.weight": f"Weight of {choice.scorer}"}
        weight = ScorerChoice.model_fields["weight"]
        yield build_leaf_knob(
            f"rewards.{number}.weight", weight, choice.weight, labels, UNITS, wrong
        )
        why = (
            f"Required agreement of {choice.scorer} with people's labels, as YAML. For example"
            " accuracy: 0.8. Optional."
        )
        yield _yaml(
            f"rewards.{number}.trust",
            why,
            _dumped(choice.trust),
            wrong,
            f"Target for {choice.scorer}",
        )


def _yaml(
    address: str, why: str | None, value: object, wrong: Mapping[str, str], label: str = ""
) -> Knob:
    text = as_yaml(value).strip() if value not in (None, [], {}) else ""
    return _build_knob(address, label, why, "yaml", text, wrong)


def _text_knob(
    address: str, why: str | None, value: tuple[str, ...], wrong: Mapping[str, str]
) -> Knob:
    return _build_knob(
        address,
        "",
        f"{why or ''} Separate values with commas.".strip(),
        "text",
        ", ".join(value),
        wrong,
    )


def _build_knob(
    address: str, label: str, why: str | None, kind: str, text: str, wrong: Mapping[str, str]
) -> Knob:
    label = (
        label or LABELS.get(address) or address.rpartition(".")[2].replace("_", " ").capitalize()
    )
    return Knob(
        address,
        label,
        (why or "").replace("`", ""),
        kind,
        text,
        max_length=MAX_YAML_LENGTH,
        wrong=wrong.get(address, ""),
    )


def _may_be_section(annotation: object) -> bool:
    """Tell whether the annotation allows a section, or several."""
    if isinstance(annotation, type):
        return issubclass(annotation, BaseModel)
    return get_origin(annotation) in (tuple, dict) or any(
        map(_may_be_section, get_args(annotation))
    )


def _is_of_words(annotation: object) -> bool:
    """Tell whether the annotation is tuple[str, …], with or without bounds on its members."""
    first = next(iter(get_args(annotation)), None)
    return first is str or next(iter(get_args(first)), None) is str


def _dumped(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_dumped(item) for item in value] if isinstance(value, tuple) else value


# -- sections of the form


def _parts(
    run: Run, plan: RunConfig, texts: Mapping[str, str], wrong: Mapping[str, str]
) -> tuple[Part, ...]:
    """Return all sections of the form.

    `texts` are the values shown in fields where they differ from the plan.
    """
    by_section: dict[str, tuple[list[Knob], list[Fact]]] = {}
    for knob in settings_knobs(plan, wrong):
        section = (
            knob.address.partition(".")[0]
            if "." in knob.address or knob.address == "pipeline"
            else ""
        )
        knobs, facts = by_section.setdefault(section, ([], []))
        if why := _why_fixed(run, plan, knob):
            facts.append(Fact(knob.address, _text_of(knob) or "–", why))
        else:
            knobs.append(_with_texts(knob, texts))
    order = sorted(
        by_section,
        key=lambda name: (
            FIRST.index(name) if name in FIRST else len(FIRST),
            not by_section[name][0],
        ),
    )
    return tuple(
        Part(name, TITLES.get(name) or _title(name), tuple(knobs), tuple(facts))
        for name, (knobs, facts) in ((name, by_section[name]) for name in order)
    )


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _editable(run: Run, plan: RunConfig) -> list[Knob]:
    return [knob for knob in settings_knobs(plan, {}) if not _why_fixed(run, plan, knob)]


def _why_fixed(run: Run, plan: RunConfig, knob: Knob) -> str:
    if knob.kind == "choice" and len(knob.choices) == 1:
        return "a different type has different fields"
    address = "rewards" if knob.address.startswith("rewards.") else knob.address
    return why_fixed(
        address, plan, has_begun=run.state != Run.State.CREATED, has_ended=run.state in Run.ENDED
    )


def _with_texts(knob: Knob, texts: Mapping[str, str]) -> Knob:
    if knob.address not in texts:
        return knob
    return replace(
        knob, value=texts[knob.address] == ON if knob.kind == "switch" else texts[knob.address]
    )


# -- values of fields


def _text_of(knob: Knob) -> str:
    """Return the value as a browser would send it back."""
    if knob.kind == "switch":
        return ON if knob.value else ""
    return "" if knob.value is None else str(knob.value)


def _text_in(knob: Knob, posted: QueryDict) -> str:
    """Return the posted value; a field that was not sent keeps its value."""
    if knob.kind == "switch":
        return (
            posted.get(knob.address, "")
            if knob.address in posted or f"has.{knob.address}" in posted
            else _text_of(knob)
        )
    return posted.get(knob.address, _text_of(knob)).replace("\r\n", "\n").strip()


def _value_in(knob: Knob, text: str) -> Any:
    """Convert a posted text to its value. Raise ConfigError if it is not YAML."""
    if knob.kind == "switch":
        return text == ON
    if knob.max_length == MAX_YAML_LENGTH:
        if knob.kind == "text":
            return [word.strip() for word in text.split(",") if word.strip()]
        return load_yaml(text) if text else None
    if knob.kind in ("whole", "number"):
        return text or None
    return text


def _nested(run: Run, turned: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by address as nested sections; lists of sections complete, with the changes."""
    nested: dict[str, Any] = {}
    for address, value in turned.items():
        *path, last = address.split(".")
        if path[:1] == ["rewards"]:
            rewards = nested.setdefault("rewards", json.loads(json.dumps(run.config["rewards"])))
            rewards[int(path[1])][last] = value
            continue
        place = nested
        for step in path:
            place = place.setdefault(step, {})
        place[last] = _empty(run, address) if value is None else value
    return nested


def _empty(run: Run, address: str) -> Any:
    """Return the value of an empty field: no section, or an empty list."""
    standing = flat(run.settings.model_dump(mode="json")).get(address)
    return [] if isinstance(standing, list) else None


def _place_problems(run: Run, plan: RunConfig, problems: Mapping[str, str]) -> dict[str, str]:
    """Assign problems to shown fields; "" has those of others, by their names."""
    addresses = {knob.address for knob in _editable(run, plan)}
    placed: dict[str, str] = {}
    for name, problem in problems.items():
        for address, words in placed_among({name: problem}, addresses).items():
            message = words if address else f"{name} {words}"
            placed[address] = "; ".join(filter(None, (placed.get(address), message)))
    return placed
