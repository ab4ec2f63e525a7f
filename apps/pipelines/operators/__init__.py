"""Operators: plain functions from a list of samples to a shorter or changed one, each a module of this package, found by its name.

A module with an `apply(samples, options) -> Sifted` is an operator. Its docstring says what it does; `FAMILY` under what it is
listed (clean, filter, shape or synthesize); it may set `Options` (typed options), `STAGES` (where it may stand, its own first: on
whole groups before advantages unless told), `ASKS` (fields of a sample that are looked up for it, apps.pipelines.asking) and
`why_not(plan)` (what of a run's configuration it cannot work with; "" where it can).
docs/pipelines.md shows how to add one. Samples of several groups come together; an operator never sees half a group before
advantages.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from types import ModuleType

from pydantic import ValidationError

from apps.pipelines.operators.contract import GROUPS, Operator, OperatorOptions, Sample, Sifted
from apps.runs.pipeline import OperatorChoice

__all__ = ["FAMILIES", "Operator", "OperatorOptions", "Sample", "Sifted", "find", "names", "problems_of", "read"]

ABOUT_OPERATORS = ("contract", "describing")  # the package's modules that are none
FAMILIES = ("clean", "filter", "shape", "synthesize")


@cache
def names() -> tuple[str, ...]:
    """Of all operators, in order of the alphabet."""
    return tuple(module.name for module in pkgutil.iter_modules(__path__) if module.name not in ABOUT_OPERATORS)


@cache
def find(name: str) -> Operator:
    """The operator of that name; raises LookupError naming the nearest one."""
    if name in names():
        return read(importlib.import_module(f"{__name__}.{name}"))
    near = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names())}"
    raise LookupError(f"no operator {name!r}; {hint}")


def read(module: ModuleType) -> Operator:
    """What this module says of itself."""
    return Operator(
        name=module.__name__.rpartition(".")[2],
        summary=(module.__doc__ or "").strip().splitlines()[0],
        call=module.apply,
        options=getattr(module, "Options", OperatorOptions),
        stages=getattr(module, "STAGES", (GROUPS,)),
        family=module.FAMILY,
        asks=getattr(module, "ASKS", ()),
        why_not=getattr(module, "why_not", lambda plan: ""),
    )


def problems_of(choices: Sequence[OperatorChoice]) -> dict[str, str]:
    """What is wrong with a pipeline, by dotted field below it: `2.options.above`."""
    found: dict[str, str] = {}
    for place, choice in enumerate(choices):
        found |= {f"{place}.{field}": why for field, why in _problems(choice).items()}
    return found


def _problems(choice: OperatorChoice) -> dict[str, str]:
    try:
        operator = find(choice.operator)
        operator.read_options(choice.options)
    except LookupError as missing:
        return {"operator": str(missing)}
    except ValidationError as bad:
        return {".".join(("options", *map(str, error["loc"]))): _in_words(error) for error in bad.errors()}
    if choice.stage and choice.stage not in operator.stages:
        return {"stage": f"{operator.name} works on {', or '.join(operator.stages)}; say so, or leave `stage` out"}
    return {}


def _in_words(error: dict) -> str:
    known = error["type"] == "extra_forbidden"
    return "is no option of this operator" if known else error["msg"].removeprefix("Value error, ")
