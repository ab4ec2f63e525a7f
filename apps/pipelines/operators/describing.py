"""Descriptions of operators, for pages and the command line."""

import json
from dataclasses import dataclass

from apps.pipelines.operators.contract import Operator

NEEDED = "needed"


@dataclass(frozen=True)
class Option:
    """Option of an operator; `default` is JSON, or a remark that it is required."""

    name: str
    default: str
    why: str


def list_operator_options(operator: Operator) -> list[Option]:
    """Return the operator's options in their order."""
    return [
        Option(
            name,
            (
                NEEDED
                if field.is_required()
                else json.dumps(field.get_default(call_default_factory=True))
            ),
            field.description or "",
        )
        for name, field in operator.options.model_fields.items()
    ]
