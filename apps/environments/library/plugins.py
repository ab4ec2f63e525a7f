"""Environments from plugins: a class `Environment`, played like those of the library."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from pydantic import BaseModel

from apps.environments.library.protocol import LibraryEnvironment
from apps.plugins.contract import (
    PluginOptions,
    is_number,
    problems_of_head,
    problems_of_options,
)
from apps.plugins.kinds import Refused

MAX_TURNS = 1_000
MAX_SECONDS = 600
METHODS = {"reset": ("seed", "options"), "step": ("action",), "close": ()}


@dataclass(frozen=True)
class EnvironmentPlugin:
    """An environment's class, the schema of its options, and its version."""

    environment: type[LibraryEnvironment]
    options: type[BaseModel] | None = None
    version: int = 1


def read_plugin(module: ModuleType, name: str) -> EnvironmentPlugin:
    """Return the environment of a plugin's module. Raises Refused."""
    problems = [*problems_of_head(module), *problems_of_options(module, PluginOptions)]
    problems += _problems_of_class(getattr(module, "Environment", None))
    if problems:
        raise Refused("; ".join(problems))
    return EnvironmentPlugin(
        module.Environment,
        getattr(module, "Options", None),
        getattr(module, "VERSION", 1),
    )


def _problems_of_class(environment_class: object) -> Iterator[str]:
    if not isinstance(environment_class, type):
        yield "Environment must be a class"
        return
    for method in METHODS:
        if not callable(getattr(environment_class, method, None)):
            yield f"Environment has no method {method}({', '.join(METHODS[method])})"
    if not isinstance(getattr(environment_class, "title", None), str):
        yield "Environment.title must be a text"
    low = getattr(environment_class, "reward_low", None)
    high = getattr(environment_class, "reward_high", None)
    if not (is_number(low) and is_number(high) and low < high):
        yield "Environment.reward_low and reward_high must be numbers, the lower one first"
    turns = getattr(environment_class, "turn_limit", None)
    if type(turns) is not int or not 1 <= turns <= MAX_TURNS:
        yield f"Environment.turn_limit must be a whole number from 1 to {MAX_TURNS}"
    seconds = getattr(environment_class, "turn_s", None)
    if not is_number(seconds) or not 0 < seconds <= MAX_SECONDS:
        yield f"Environment.turn_s must be above 0 and at most {MAX_SECONDS} seconds"
