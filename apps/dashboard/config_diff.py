"""Compare configurations: the fields in which they differ, however each was written."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.runs.changing import flat
from apps.runs.config import RunConfig
from apps.runs.parsing import as_yaml

ABSENT = "–"


@dataclass(frozen=True)
class Difference:
    """A dotted field and its value in each configuration; a dash where it does not exist."""

    field: str
    values: tuple[str, ...]


def list_differing_fields(plans: Sequence[RunConfig]) -> list[Difference]:
    """Return the differing fields in the order of the schema, with defaults filled in."""
    flats = [flat(plan.model_dump(mode="json")) for plan in plans]
    fields = dict.fromkeys(field for config in flats for field in config)
    differences = []
    for field in fields:
        if all(field in config and config[field] == flats[0][field] for config in flats):
            continue
        values = tuple(_format_field(config, field) for config in flats)
        if len(set(values)) > 1:
            differences.append(Difference(field, values))
    return differences


def _format_field(values: dict[str, object], field: str) -> str:
    """Return a field's value as YAML, on one line if it is short."""
    if field not in values:
        return ABSENT
    value = values[field]
    if isinstance(value, str):
        return value
    return as_yaml(value).removesuffix("...\n").strip() or ABSENT
