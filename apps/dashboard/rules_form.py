"""The rules of a run's alerts as a form: a switch for each, its thresholds under it, and each refusal at its field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from apps.alerts.kinds import TITLES
from apps.dashboard.knobs import Knob, knobs_of, values_in
from apps.runs.alerts import Alerts
from apps.runs.models import Run

LABELS = {
    "no_progress.after_s": "After",
    "no_progress.times": "Times the usual",
    "starvation.after_s": "After",
    "nothing_learned.updates": "Updates' worth",
    "not_finite.updates": "Updates",
    "not_finite.among": "Among the newest",
    "kl.reference": "From the reference",
    "kl.behaviour": "From what sampled",
    "kl.steps": "Mean of",
    "entropy.share": "Share of the first",
    "entropy.success": "Unless solved",
    "entropy.steps": "Mean of",
    "unacknowledged.after_s": "After",
    "disk.free": "Free",
    "silence.after_s": "After",
    "lost_worker.after_s": "After",
    "lost_worker.until_s": "Until",
    "control_behind.after_s": "After",
    "budget.share": "From",
    **{f"{name}.pause": "Pause the run" for name in TITLES},
}
UNITS = {
    "kl.reference": "nats",
    "kl.behaviour": "nats",
    "kl.steps": "updates",
    "entropy.steps": "updates",
    "not_finite.among": "updates",
}


@dataclass(frozen=True)
class RuleKnobs:
    """`switch`: whether it is looked at; `knobs`: its thresholds, and whether it pauses."""

    name: str
    title: str
    switch: Knob
    knobs: tuple[Knob, ...]


def rules_of(run: Run) -> list[RuleKnobs]:
    return _rules(run.settings.alerts.model_dump(mode="json"), {})


def posted_rules(form: QueryDict, problems: Mapping[str, str]) -> list[RuleKnobs]:
    """As they were sent, with what is wrong by the configuration's fields (`alerts.kl.steps`)."""
    return _rules(values_in(Alerts, form), {name.removeprefix("alerts."): words for name, words in problems.items()})


def values_of(form: QueryDict) -> dict[str, Any]:
    return values_in(Alerts, form)


def _rules(values: Mapping[str, Any], wrong: Mapping[str, str]) -> list[RuleKnobs]:
    found = {knob.address: knob for knob in knobs_of(Alerts, values, LABELS, wrong)}
    return [
        RuleKnobs(name, title, found[name], tuple(knob for address, knob in found.items() if address.startswith(f"{name}.")))
        for name, title in TITLES.items()
    ]
