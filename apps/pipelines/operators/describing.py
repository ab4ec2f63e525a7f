"""Operators in words, for pages and the command line."""

import json
from dataclasses import dataclass

from apps.pipelines.operators.contract import Operator

NEEDED = "needed"


@dataclass(frozen=True)
class Option:
    """`default` as JSON, or that it is needed."""

    name: str
    default: str
    why: str


def options_of(operator: Operator) -> list[Option]:
    """Its options in their order."""
    return [
        Option(
            name,
            NEEDED if field.is_required() else json.dumps(field.get_default(call_default_factory=True)),
            field.description or "",
        )
        for name, field in operator.options.model_fields.items()
    ]
