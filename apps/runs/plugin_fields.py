"""Fields of a configuration that name a plugin, each with the field that has its options."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from apps.plugins.guarded_calls import plugin_errors
from apps.plugins.kinds import ADVANTAGE, LOSS, RATER_MODEL, RATING_FORM
from apps.plugins.registry import REGISTRY
from apps.runs.config import RunConfig


@dataclass(frozen=True)
class PluginField:
    """Kind of plugin, and the dotted addresses of its name and of its options."""

    kind: str
    name: str
    options: str


PLUGIN_FIELDS = (
    PluginField(RATING_FORM, "people.form", "people.form_options"),
    PluginField(RATER_MODEL, "people.rater_model.plugin", "people.rater_model.options"),
    PluginField(ADVANTAGE, "algorithm.advantage.plugin", "algorithm.advantage.options"),
    PluginField(LOSS, "algorithm.loss.plugin", "algorithm.loss.options"),
)
NOT_ASKED = "flag"  # a rating form that stands beside every other one


def refusals_of_plugins(plan: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the plugins that a run names, and with their options."""
    for field in PLUGIN_FIELDS:
        name = _value_at(plan, field.name)
        if not name:
            continue
        if field.kind == RATING_FORM and name == NOT_ASKED:
            yield field.name, "flag cannot be asked for: raters can flag any reply"
            continue
        try:
            part = REGISTRY.find(field.kind, name)
        except LookupError as missing:
            yield field.name, str(missing)
            continue
        yield from _refusals_of_options(field, part, _value_at(plan, field.options) or {})


def _refusals_of_options(
    field: PluginField, part: Any, options: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    try:
        with plugin_errors():
            part.options.model_validate(options)
    except ValidationError as bad:
        for error in bad.errors():
            yield ".".join([field.options, *map(str, error["loc"])]), error["msg"]
    except Exception as error:  # a validator may be anybody's code: its options are refused
        yield field.options, f"could not be checked: {type(error).__name__}: {error}"


def _value_at(plan: Any, address: str) -> Any:
    """Return the value at a dotted address; None where a section on the way has no such field."""
    for part in address.split("."):
        plan = getattr(plan, part, None)
    return plan
