"""Operators: functions from a list of samples to a shorter or changed one, one for each module.

They are found by their modules' names: ours in this package, others' in plugins (apps.plugins).

A module with an `apply(samples, options) -> Sifted` is an operator. Its docstring says what it
does; `FAMILY` under what it is listed (clean, filter, shape or synthesize); it may set `Options`
(typed options), `STAGES` (where it may stand, its own first: on whole groups before advantages
unless told), `ASKS` (fields of a sample that are looked up for it, apps.pipelines.asking) and
`why_not(plan)` (what of a run's configuration it cannot work with; "" where it can).
docs/pipelines.md shows how to add one. Samples of several groups come together; an operator never
sees half a group before advantages.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import ModuleType

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from apps.accounts.public_text import public_text
from apps.pipelines.operators.contract import (
    FAMILIES,
    GROUPS,
    Operator,
    OperatorOptions,
    Sample,
    Sifted,
    sift,
    sift_groups,
)
from apps.pipelines.operators.plugins import require_usable_operator
from apps.plugins.guarded_calls import guarded
from apps.plugins.kinds import Kind
from apps.plugins.registry import REGISTRY
from apps.runs.pipeline import OperatorChoice

__all__ = [
    "FAMILIES",
    "Operator",
    "OperatorOptions",
    "Sample",
    "Sifted",
    "find_operator",
    "find_operator_problems",
    "operator_names",
    "read_operator",
    "sift",
    "sift_groups",
]

# The package's modules that are none.
ABOUT_OPERATORS = ("contract", "describing", "plugins")
KIND = "operator"


def operator_names() -> tuple[str, ...]:
    """Return the names of all operators, sorted: built-in ones, and plugins that can be used."""
    return REGISTRY.names(KIND)


def find_operator(name: str) -> Operator:
    """Return the operator of that name; raises LookupError naming the nearest one."""
    return REGISTRY.find(KIND, name)


def read_operator(module: ModuleType) -> Operator:
    """Return the operator that a module defines."""
    return Operator(
        name=module.__name__.rpartition(".")[2],
        summary=(module.__doc__ or "").strip().splitlines()[0],
        call=module.apply,
        options=getattr(module, "Options", OperatorOptions),
        stages=getattr(module, "STAGES", (GROUPS,)),
        family=module.FAMILY,
        asks=getattr(module, "ASKS", ()),
        why_not=getattr(module, "why_not", lambda plan: ""),
        version=getattr(module, "VERSION", 1),
    )


def read_operator_plugin(module: ModuleType, name: str) -> Operator:
    """Return the operator of somebody else's module. Raises Refused."""
    require_usable_operator(module)
    operator = read_operator(module)
    return replace(
        operator,
        name=name,
        call=guarded(operator.call),
        why_not=guarded(operator.why_not),
        is_plugin=True,
    )


@cache
def built_in_operators() -> Mapping[str, Callable[[], Operator]]:
    """Return the operators of this package by name, each with what loads it."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return {name: partial(_load, name) for name in modules if name not in ABOUT_OPERATORS}


def _load(name: str) -> Operator:
    return read_operator(importlib.import_module(f"{__name__}.{name}"))


REGISTRY.register(
    Kind(
        name=KIND,
        group="rftweb.operators",
        functions=("apply",),
        built_in=built_in_operators,
        read=read_operator_plugin,
        version=lambda operator: operator.version,
    )
)


def find_operator_problems(choices: Sequence[OperatorChoice]) -> dict[str, str]:
    """Return what is wrong with a pipeline, by dotted field below it: `2.options.above`."""
    problems: dict[str, str] = {}
    for place, choice in enumerate(choices):
        problems |= {f"{place}.{field}": why for field, why in _problems(choice).items()}
    return problems


def _problems(choice: OperatorChoice) -> dict[str, str]:
    try:
        operator = find_operator(choice.operator)
        operator.read_options(choice.options)
    except LookupError as missing:
        return {"operator": public_text(missing)}
    except ValidationError as bad:
        return {
            ".".join(("options", *map(str, error["loc"]))): _in_words(error)
            for error in bad.errors()
        }
    if choice.stage and choice.stage not in operator.stages:
        return {
            "stage": (
                f"{operator.name} works on {' or '.join(operator.stages)}; choose one of "
                "these or omit `stage`"
            )
        }
    return {}


def _in_words(error: ErrorDetails) -> str:
    is_extra = error["type"] == "extra_forbidden"
    return (
        "is not an option of this operator"
        if is_extra
        else error["msg"].removeprefix("Value error, ")
    )
