"""Checks of scorers that plugins bring, before any of them is used."""

from collections.abc import Iterator
from types import ModuleType

from apps.plugins.contract import (
    is_number,
    problems_of_call,
    problems_of_head,
    problems_of_options,
)
from apps.plugins.kinds import Refused
from apps.rewards.scorers.contract import ScorerOptions

MAX_SECONDS = 600


def require_usable_scorer(module: ModuleType) -> None:
    """Raise Refused with everything that is wrong with a plugin's scorer."""
    if problems := list(find_scorer_plugin_problems(module)):
        raise Refused("; ".join(problems))


def find_scorer_plugin_problems(module: ModuleType) -> Iterator[str]:
    yield from problems_of_head(module)
    yield from problems_of_options(module, ScorerOptions)
    yield from _problems_of_calls(module)
    scale = getattr(module, "RANGE", (0.0, 1.0))
    if not _is_range(scale):
        yield f"RANGE is {scale!r}: it must be two numbers, the lower one first"
    seconds = getattr(module, "SECONDS", 1.0)
    if not is_number(seconds) or not 0 < seconds <= MAX_SECONDS:
        yield f"SECONDS is {seconds!r}: it must be above 0 and at most {MAX_SECONDS}"


def _is_range(scale: object) -> bool:
    if not isinstance(scale, tuple | list) or len(scale) != 2:
        return False
    return all(map(is_number, scale)) and scale[0] < scale[1]


def _problems_of_calls(module: ModuleType) -> Iterator[str]:
    if hasattr(module, "ask"):
        yield "defines ask: scorers of plugins cannot ask a model"
    if hasattr(module, "score") and hasattr(module, "score_group"):
        yield "defines both score and score_group: keep one of them"
    elif hasattr(module, "score_group"):
        yield from problems_of_call(module, "score_group", ("rollouts", "task", "options"))
    else:
        yield from problems_of_call(module, "score", ("rollout", "task", "options"))
    if hasattr(module, "prepare"):
        yield from problems_of_call(module, "prepare", ("task",))
