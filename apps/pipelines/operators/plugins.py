"""Checks of operators that plugins bring, before any of them is used."""

from collections.abc import Iterator
from types import ModuleType
from typing import get_args

from apps.pipelines.operators.contract import FAMILIES, GROUPS, TASKS, OperatorOptions
from apps.plugins.contract import problems_of_call, problems_of_head, problems_of_options
from apps.plugins.kinds import Refused
from apps.runs.pipeline import Stage

STAGES = get_args(Stage)
# A run counts on the rows that our operators of this family add, by their names.
NOT_OPEN = "synthesize"
# Look-ups that need no options of the operator, by the stages at which they are answered.
ASKS_OF_TASKS = ("guessed", "scales")
ASKS_OF_GROUPS = ("acted", "guessed", "imitated", "reached", "recent")


def require_usable_operator(module: ModuleType) -> None:
    """Raise Refused with everything that is wrong with a plugin's operator."""
    if problems := list(find_operator_plugin_problems(module)):
        raise Refused("; ".join(problems))


def find_operator_plugin_problems(module: ModuleType) -> Iterator[str]:
    yield from problems_of_head(module)
    yield from problems_of_options(module, OperatorOptions)
    yield from problems_of_call(module, "apply", ("samples", "options"))
    if hasattr(module, "why_not"):
        yield from problems_of_call(module, "why_not", ("plan",))
    yield from _problems_of_family(getattr(module, "FAMILY", None))
    stages = getattr(module, "STAGES", (GROUPS,))
    if not isinstance(stages, tuple) or not stages or not set(stages) <= set(STAGES):
        yield f"STAGES is {stages!r}: it must be a tuple of {', '.join(STAGES)}"
        return
    yield from _problems_of_asks(getattr(module, "ASKS", ()), stages)


def _problems_of_family(family: object) -> Iterator[str]:
    if family == NOT_OPEN:
        yield f"FAMILY is {NOT_OPEN!r}: operators of plugins cannot add rows"
    elif family not in FAMILIES:
        allowed = ", ".join(name for name in FAMILIES if name != NOT_OPEN)
        yield f"FAMILY is {family!r}: it must be one of {allowed}"


def _problems_of_asks(asks: object, stages: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(asks, tuple):
        yield f"ASKS is {asks!r}: it must be a tuple"
        return
    for stage in stages:
        askable = ASKS_OF_TASKS if stage == TASKS else ASKS_OF_GROUPS
        allowed = () if stage == "batch" else askable
        if strange := [name for name in asks if name not in allowed]:
            words = ", ".join(allowed) or "nothing"
            yield f"ASKS names {strange[0]!r}: on {stage} a plugin can ask for {words}"
