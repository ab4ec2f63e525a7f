"""A kind of plugin, as the app with its contract describes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

RATING_FORM = "rating_form"
ADVANTAGE = "advantage"
LOSS = "loss"
RATER_MODEL = "rater_model"
ENVIRONMENT = "environment"
ALERT_CHANNEL = "alert_channel"
DATASET_SOURCE = "dataset_source"


class Refused(Exception):
    """Raised for a plugin that cannot be used; the message says why, for its author."""


@dataclass(frozen=True)
class Kind:
    """Kind of plugin.

    `group`: the entry points by which installed packages offer plugins of this kind; `functions`:
    a file that defines one of them (functions or classes) is of this kind; `file`: so is a folder
    with a module of this name, and that module is the plugin; `built_in`: our own, by name, each
    with a function that loads it; `read`: makes one from a module and its name, raises Refused;
    `version`: the version of one.
    """

    name: str
    group: str
    functions: tuple[str, ...]
    built_in: Callable[[], Mapping[str, Callable[[], Any]]]
    read: Callable[[ModuleType, str], Any]
    version: Callable[[Any], int]
    file: str = ""

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")
