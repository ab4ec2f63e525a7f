"""All knobs of a run's configuration as one form: what may still be turned as fields, the rest as facts with the reason.

What a field is called, its bounds and its words come from the schema (apps.dashboard.knobs). Sections that may be left out and
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
from apps.dashboard.differences import Difference, differences
from apps.dashboard.knobs import ON, Knob, is_optional, leaf_of, placed_among
from apps.runs.changing import changed, flat, why_fixed
from apps.runs.config import ConfigError, RunConfig, ScorerChoice, as_yaml, loaded
from apps.runs.differences import put_back
from apps.runs.models import Run
from apps.streaming.models import Event

LABELS = {
    **{f"people.{address}": label for address, label in people_form.LABELS.items()},
    "algorithm.kl.coefficient": "Weight of the KL", "algorithm.kl.target": "Divergence to hold",
    "algorithm.kl.horizon": "Horizon of its weight", "max_staleness": "Largest staleness",
}  # fmt: skip
UNITS = {
    **{f"people.{address}": unit for address, unit in people_form.UNITS.items()},
    "sampling.max_tokens": "tokens", "sampling.time_s": "s", "max_staleness": "versions", "over_rollout": "groups",
    "checkpoints.every": "steps", "checkpoints.weights": "versions", "algorithm.kl.target": "nats/token",
    "algorithm.kl.horizon": "rollouts",
}  # fmt: skip
TITLES = {
    "": "The run", "rewards": "Rewards", "sampling": "Sampling", "optimizer": "Optimizer", "algorithm": "Algorithm",
    "people": "People", "pipeline": "Pipeline", "checkpoints": "Checkpoints", "hacking": "Signs of reward hacking",
}  # fmt: skip
FIRST = ("optimizer", "algorithm", "sampling", "rewards", "", "people", "pipeline")  # what is turned most stands first
LONGEST_YAML = 20_000


@dataclass(frozen=True)
class Fact:
    """A knob that cannot be turned any more. `value` as YAML, `why` it cannot."""

    address: str
    value: str
    why: str


@dataclass(frozen=True)
class Part:
    """One section of the configuration: fields first, then what is fixed."""

    name: str
    title: str
    knobs: tuple[Knob, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class SettingsForm:
    """`fields`: what was turned, as `Run.change_config` takes it; `differences` what that changes; `wrong` by address."""

    parts: tuple[Part, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)
    seen: str = ""

    @property
    def general(self) -> str:
        """What is wrong with no field that is shown."""
        return self.wrong.get("", "")

    @property
    def digest(self) -> str:
        """Names the differences, so that what is applied is what was shown."""
        return hashlib.sha256(repr(self.differences).encode()).hexdigest()[:16]


# Said by every form of a configuration that is saved over what somebody else has changed since it was read.
SAVE_AGAIN = "Somebody changed the configuration meanwhile. What you see is yours; save again to put it in the place of theirs."


def digest_of(run: Run) -> str:
    """Names the configuration as it stands, so that a form filled in before somebody else's change is noticed."""
    return hashlib.sha256(json.dumps(run.config, sort_keys=True).encode()).hexdigest()[:16]


def form_of(run: Run) -> SettingsForm:
    """As the configuration stands."""
    return SettingsForm(_parts(run, run.settings, {}, {}), seen=digest_of(run))


def read(run: Run, posted: QueryDict) -> SettingsForm:
    """The form as posted, judged as the run would judge it; nothing is written."""
    plan = run.settings
    texts = {knob.address: _text_in(knob, posted) for knob in _editable(run, plan)}
    shown = {knob.address: _text_of(knob) for knob in _editable(run, plan)}
    wrong: dict[str, str] = {}
    turned: dict[str, Any] = {}
    for knob in _editable(run, plan):
        if texts[knob.address] != shown[knob.address]:
            try:
                turned[knob.address] = _value_in(knob, texts[knob.address])
            except ConfigError as error:
                wrong[knob.address] = "; ".join(error.problems.values())
    if wrong:
        return SettingsForm(_parts(run, plan, texts, wrong), wrong=wrong, seen=posted.get("seen", ""))
    return replace(judged(run, _nested(run, turned), texts), seen=posted.get("seen", ""))


def putting_back(run: Run, event: Event) -> SettingsForm:
    """The form with what a recorded change had changed as it was before it; later changes of other fields stay."""
    now = run.settings.model_dump(mode="json")
    return judged(run, put_back(event.payload["before"], event.payload["after"], now), {})


def judged(run: Run, fields: Mapping[str, Any], texts: Mapping[str, str]) -> SettingsForm:
    """The form with these fields changed. `texts`: what stands in its fields; what is not there stands as it would become."""
    plan = run.settings
    try:
        after = changed(plan, dict(fields), has_begun=run.state != Run.State.CREATED)
    except ConfigError as error:
        wrong = _placed(run, plan, error.problems)
        return SettingsForm(_parts(run, plan, texts, wrong), wrong=wrong, seen=digest_of(run))
    found = differences(plan.model_dump(mode="json"), after.model_dump(mode="json"))
    return SettingsForm(_parts(run, after, texts, {}), fields, tuple(found), seen=digest_of(run))


# -- the configuration as knobs ---------------------------------------------------------------------------------------------


def knobs_of(plan: BaseModel, wrong: Mapping[str, str], prefix: str = "") -> Iterator[Knob]:
    """The leaves of a section as it stands: where sections may be chosen from, those of the chosen one."""
    for name, info in type(plan).model_fields.items():
        address, value = f"{prefix}{name}", getattr(plan, name)
        if isinstance(value, BaseModel) and not is_optional(info):
            yield from knobs_of(value, wrong, f"{address}.")
        elif address == "rewards":
            yield from _scorers(value, wrong)
        elif isinstance(value, tuple) and _is_of_words(info.annotation):
            yield _words(address, info.description, value, wrong)
        elif _may_be_section(info.annotation):
            yield _yaml(address, info.description, _dumped(value), wrong)
        else:
            yield leaf_of(address, info, value, LABELS, UNITS, wrong)


def _scorers(chosen: tuple[ScorerChoice, ...], wrong: Mapping[str, str]) -> Iterator[Knob]:
    for number, choice in enumerate(chosen):
        labels = {f"rewards.{number}.weight": f"Weight of {choice.scorer}"}
        weight = ScorerChoice.model_fields["weight"]
        yield leaf_of(f"rewards.{number}.weight", weight, choice.weight, labels, UNITS, wrong)
        why = f"What {choice.scorer} must reach against people's labels, as YAML, such as accuracy: 0.8; empty asks for nothing."
        yield _yaml(f"rewards.{number}.trust", why, _dumped(choice.trust), wrong, f"Trust in {choice.scorer}")


def _yaml(address: str, why: str | None, value: object, wrong: Mapping[str, str], label: str = "") -> Knob:
    text = as_yaml(value).strip() if value not in (None, [], {}) else ""
    return _written(address, label, why, "yaml", text, wrong)


def _words(address: str, why: str | None, value: tuple[str, ...], wrong: Mapping[str, str]) -> Knob:
    return _written(address, "", f"{why or ''} With commas between.".strip(), "text", ", ".join(value), wrong)


def _written(address: str, label: str, why: str | None, kind: str, text: str, wrong: Mapping[str, str]) -> Knob:
    label = label or LABELS.get(address) or address.rpartition(".")[2].replace("_", " ").capitalize()
    return Knob(address, label, (why or "").replace("`", ""), kind, text, longest=LONGEST_YAML, wrong=wrong.get(address, ""))


def _may_be_section(annotation: object) -> bool:
    """Whether a section, or several, could stand there."""
    if isinstance(annotation, type):
        return issubclass(annotation, BaseModel)
    return get_origin(annotation) in (tuple, dict) or any(map(_may_be_section, get_args(annotation)))


def _is_of_words(annotation: object) -> bool:
    """tuple[str, …], its members bounded or not."""
    first = next(iter(get_args(annotation)), None)
    return first is str or next(iter(get_args(first)), None) is str


def _dumped(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_dumped(one) for one in value] if isinstance(value, tuple) else value


# -- its parts ----------------------------------------------------------------------------------------------------------------


def _parts(run: Run, plan: RunConfig, texts: Mapping[str, str], wrong: Mapping[str, str]) -> tuple[Part, ...]:
    """All of it, by section. `texts` are what stands in the fields where it is not what the plan says."""
    by_section: dict[str, tuple[list[Knob], list[Fact]]] = {}
    for knob in knobs_of(plan, wrong):
        section = knob.address.partition(".")[0] if "." in knob.address or knob.address == "pipeline" else ""
        knobs, facts = by_section.setdefault(section, ([], []))
        if why := _why_fixed(run, plan, knob):
            facts.append(Fact(knob.address, _text_of(knob) or "–", why))
        else:
            knobs.append(_standing(knob, texts))
    order = sorted(by_section, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), not by_section[name][0]))
    return tuple(Part(name, TITLES.get(name) or _title(name), *map(tuple, by_section[name])) for name in order)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _editable(run: Run, plan: RunConfig) -> list[Knob]:
    return [knob for knob in knobs_of(plan, {}) if not _why_fixed(run, plan, knob)]


def _why_fixed(run: Run, plan: RunConfig, knob: Knob) -> str:
    if knob.kind == "choice" and len(knob.choices) == 1:
        return "names the section; another one has other fields"
    address = "rewards" if knob.address.startswith("rewards.") else knob.address
    return why_fixed(address, plan, has_begun=run.state != Run.State.CREATED, has_ended=run.state in Run.ENDED)


def _standing(knob: Knob, texts: Mapping[str, str]) -> Knob:
    if knob.address not in texts:
        return knob
    return replace(knob, value=texts[knob.address] == ON if knob.kind == "switch" else texts[knob.address])


# -- what stands in a field ---------------------------------------------------------------------------------------------------


def _text_of(knob: Knob) -> str:
    """As a browser would send it back."""
    if knob.kind == "switch":
        return ON if knob.value else ""
    return "" if knob.value is None else str(knob.value)


def _text_in(knob: Knob, posted: QueryDict) -> str:
    """What was sent for it; what was not sent at all stands as it is."""
    if knob.kind == "switch":
        return posted.get(knob.address, "") if knob.address in posted or f"has.{knob.address}" in posted else _text_of(knob)
    return posted.get(knob.address, _text_of(knob)).replace("\r\n", "\n").strip()


def _value_in(knob: Knob, text: str) -> Any:
    """Raises ConfigError for what is no YAML."""
    if knob.kind == "switch":
        return text == ON
    if knob.longest == LONGEST_YAML:
        if knob.kind == "text":
            return [word.strip() for word in text.split(",") if word.strip()]
        return loaded(text) if text else None
    if knob.kind in ("whole", "number"):
        return text or None
    return text


def _nested(run: Run, turned: Mapping[str, Any]) -> dict[str, Any]:
    """Values by address as the fields of sections; lists of sections whole, as they stand with what was turned in them."""
    found: dict[str, Any] = {}
    for address, value in turned.items():
        *path, last = address.split(".")
        if path[:1] == ["rewards"]:
            rewards = found.setdefault("rewards", json.loads(json.dumps(run.config["rewards"])))
            rewards[int(path[1])][last] = value
            continue
        place = found
        for step in path:
            place = place.setdefault(step, {})
        place[last] = _empty(run, address) if value is None else value
    return found


def _empty(run: Run, address: str) -> Any:
    """What nothing written there means: no section, or an empty list."""
    standing = flat(run.settings.model_dump(mode="json")).get(address)
    return [] if isinstance(standing, list) else None


def _placed(run: Run, plan: RunConfig, problems: Mapping[str, str]) -> dict[str, str]:
    """Problems at the fields that are shown; "" has those of others, by their names."""
    addresses = {knob.address for knob in _editable(run, plan)}
    found: dict[str, str] = {}
    for name, problem in problems.items():
        for address, words in placed_among({name: problem}, addresses).items():
            said = words if address else f"{name} {words}"
            found[address] = "; ".join(filter(None, (found.get(address), said)))
    return found
