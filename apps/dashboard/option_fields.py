"""The options of the scorers and plugins that a configuration names, as fields of a form.

Their schemas are pydantic models, as a configuration's own sections are; an unknown name has no
fields.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.http import QueryDict
from pydantic import BaseModel

from apps.dashboard.knobs import Knob, defaults, section_knobs, values_in
from apps.plugins.kinds import ENVIRONMENT
from apps.plugins.registry import REGISTRY
from apps.rewards.scorers import KIND as SCORER
from apps.runs.plugin_fields import PLUGIN_FIELDS, PluginField

OPTIONS_OF_ENVIRONMENT = PluginField(ENVIRONMENT, "environment.name", "environment.options")


def with_option_fields(
    knobs: Iterable[Knob], values: Mapping[str, Any], wrong: Mapping[str, str], prefix: str = ""
) -> Iterator[Knob]:
    """Yield the fields, with a field for each option in place of the options' YAML.

    `values` is the configuration as nested dicts; `prefix` is what the addresses of the fields
    leave out of those in the configuration, such as `people.`.
    """
    fields = {field.options.removeprefix(prefix): field for field in PLUGIN_FIELDS}
    for knob in knobs:
        if knob.address in fields:
            yield from _options_of_plugin(knob, fields[knob.address], values, wrong, prefix)
            continue
        if prefix + knob.address == OPTIONS_OF_ENVIRONMENT.options:
            yield from _options_of_environment(knob, values, wrong)
            continue
        yield knob
        if knob.kind == "scorers":
            yield from _options_of_scorers(knob, wrong)


def _options_of_plugin(
    knob: Knob,
    field: PluginField,
    values: Mapping[str, Any],
    wrong: Mapping[str, str],
    prefix: str,
) -> Iterator[Knob]:
    schema = _schema(field.kind, _value_at(values, field.name.removeprefix(prefix)))
    options = _value_at(values, knob.address)
    if schema is None or not isinstance(options, Mapping | None):
        # Without a plugin there is nothing to set; what is written nevertheless can be taken out.
        if options or knob.wrong:
            yield knob
        return
    yield from section_knobs(
        schema, {**defaults(schema), **(options or {})}, {}, wrong, f"{knob.address}."
    )


def _options_of_environment(
    knob: Knob, values: Mapping[str, Any], wrong: Mapping[str, str]
) -> Iterator[Knob]:
    """Yield the options of a plugin's environment; others have no schema here, and keep YAML."""
    schema = _schema(OPTIONS_OF_ENVIRONMENT.kind, _value_at(values, OPTIONS_OF_ENVIRONMENT.name))
    if schema is None:
        yield knob
    else:
        yield from _options_of_plugin(knob, OPTIONS_OF_ENVIRONMENT, values, wrong, "")


def _options_of_scorers(knob: Knob, wrong: Mapping[str, str]) -> Iterator[Knob]:
    for place, row in enumerate(knob.rows):
        schema = _schema(SCORER, row.get("scorer"))
        options = row.get("options") or {}
        if schema is None or not isinstance(options, Mapping):
            continue
        filled = {**defaults(schema), **options}
        for option in section_knobs(schema, filled, {}, wrong, f"{knob.address}.{place}.options."):
            yield replace(
                option, label=f"{row['scorer']}: {option.label[:1].lower()}{option.label[1:]}"
            )


def options_in(field: PluginField, name: Any, posted: QueryDict, prefix: str = "") -> dict:
    """Return the options that were posted for a plugin; empty if it was shown without fields."""
    start = f"{field.options.removeprefix(prefix)}."
    schema = _schema(field.kind, name)
    if schema is None or not any(key.startswith(start) for key in posted):
        return {}
    values = values_in(schema, posted, start)
    return {name: value for name, value in values.items() if value is not None}


def _schema(kind: str, name: Any) -> type[BaseModel] | None:
    """Return the schema of a part's options; None for an unknown part, or one without options."""
    if not isinstance(name, str) or not name:
        return None
    try:
        schema = REGISTRY.find(kind, name).options
    except LookupError:
        return None
    return schema if schema is not None and schema.model_fields else None


def _value_at(values: Any, address: str) -> Any:
    for part in address.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values
