"""Environments in Python, by name: classes with reset, step and close (protocol.py).

Ours are in `ENVIRONMENTS`; others' come from plugins (apps.plugins).
"""

from collections.abc import Callable, Mapping
from functools import partial

from apps.environments.library.calculator import Calculator
from apps.environments.library.code_repair import CodeRepair
from apps.environments.library.grid_world import GridWorld
from apps.environments.library.guess_number import GuessNumber
from apps.environments.library.picture_question import PictureQuestion
from apps.environments.library.plugins import EnvironmentPlugin, read_plugin
from apps.environments.library.protocol import LibraryEnvironment
from apps.plugins.kinds import ENVIRONMENT, Kind
from apps.plugins.registry import REGISTRY

ENVIRONMENTS: dict[str, type[LibraryEnvironment]] = {
    "calculator": Calculator,
    "code_repair": CodeRepair,
    "grid_world": GridWorld,
    "guess_number": GuessNumber,
    "picture_question": PictureQuestion,
}


def names() -> tuple[str, ...]:
    """Return the names of all environments, sorted: built-in ones, and plugins."""
    return REGISTRY.names(ENVIRONMENT)


def find(name: str) -> type[LibraryEnvironment]:
    """Return the class of that name; raises LookupError naming the nearest one."""
    return ENVIRONMENTS.get(name) or REGISTRY.find(ENVIRONMENT, name).environment


def built_in() -> Mapping[str, Callable[[], EnvironmentPlugin]]:
    """Return the environments of this package by name, each with what makes it."""
    return {
        name: partial(EnvironmentPlugin, environment) for name, environment in ENVIRONMENTS.items()
    }


REGISTRY.register(
    Kind(
        name=ENVIRONMENT,
        group="rftweb.environments",
        functions=("Environment",),
        built_in=built_in,
        read=read_plugin,
        version=lambda environment: environment.version,
    )
)
