"""A run's alert rules as a form: a switch per rule, its thresholds, and errors at their fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from apps.alerts.kinds import TITLES
from apps.dashboard.knobs import Knob, section_knobs, values_in
from apps.runs.alerts import Alerts
from apps.runs.models import Run

LABELS = {
    "no_progress.after_s": "After",
    "no_progress.step_time_factor": "Times the median",
    "starvation.after_s": "After",
    "nothing_learned.steps": "Steps of groups",
    "not_finite.steps": "Steps",
    "not_finite.window": "Among the newest",
    "kl.reference": "From the reference model",
    "kl.behaviour": "From the sampling weights",
    "kl.steps": "Mean of",
    "entropy.share": "Share of the initial entropy",
    "entropy.success": "Except above success",
    "entropy.steps": "Mean of",
    "behaviour_gap.max_ratio": "Times the initial median",
    "behaviour_gap.min_gap": "Above",
    "behaviour_gap.baseline_steps": "Initial steps",
    "behaviour_gap.steps": "Mean of",
    "unacknowledged.after_s": "After",
    "disk.min_free_share": "Minimum free",
    "silence.after_s": "After",
    "lost_worker.after_s": "After",
    "lost_worker.removed_after_s": "Close after",
    "control_worker_late.after_s": "After",
    "budget.share": "Warn from",
    **{f"{name}.pause": "Pause the run" for name in TITLES},
}
UNITS = {
    "kl.reference": "nats",
    "kl.behaviour": "nats",
    "kl.steps": "steps",
    "entropy.steps": "steps",
    "behaviour_gap.min_gap": "nats",
    "behaviour_gap.baseline_steps": "steps",
    "behaviour_gap.steps": "steps",
    "not_finite.window": "steps",
}


@dataclass(frozen=True)
class RuleKnobs:
    """A rule's fields: `switch` turns it on, `knobs` are its thresholds and whether it pauses."""

    name: str
    title: str
    switch: Knob
    knobs: tuple[Knob, ...]


def list_rule_knobs(run: Run) -> list[RuleKnobs]:
    return _rules(run.settings.alerts.model_dump(mode="json"), {})


def posted_rules(form: QueryDict, problems: Mapping[str, str]) -> list[RuleKnobs]:
    """Return the rules as posted, with errors by configuration field (`alerts.kl.steps`)."""
    return _rules(
        values_in(Alerts, form),
        {name.removeprefix("alerts."): words for name, words in problems.items()},
    )


def read_rule_values(form: QueryDict) -> dict[str, Any]:
    return values_in(Alerts, form)


def _rules(values: Mapping[str, Any], wrong: Mapping[str, str]) -> list[RuleKnobs]:
    knobs_by_address = {knob.address: knob for knob in section_knobs(Alerts, values, LABELS, wrong)}
    return [
        RuleKnobs(
            name,
            title,
            knobs_by_address[name],
            tuple(
                knob for address, knob in knobs_by_address.items() if address.startswith(f"{name}.")
            ),
        )
        for name, title in TITLES.items()
    ]
