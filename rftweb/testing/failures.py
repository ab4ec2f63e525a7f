"""What is wrong with a plugin, and the plugin that is checked."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apps.plugins.registry import REGISTRY


class PluginFailed(AssertionError):
    """Raised with all problems of a plugin, a line each."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join(f"{name}: {problem}" for problem in problems))
        self.problems = list(problems)


@contextmanager
def open_plugin(plugin: Path | str) -> Iterator[str]:
    """Yield the plugin's name, with its folder as the plugins folder if it is a path."""
    if isinstance(plugin, str):
        yield plugin
        return
    before = REGISTRY.folder
    REGISTRY.use(plugin.resolve().parent)
    try:
        yield plugin.stem if plugin.suffix == ".py" else plugin.name
    finally:
        REGISTRY.use(before)


def find_plugin(find: Callable[[str], Any], name: str) -> Any:
    """Return the plugin as the installation finds it. Raises PluginFailed."""
    try:
        return find(name)
    except LookupError as refused:
        raise PluginFailed(name, [str(refused)]) from None


def require_none(name: str, problems: Sequence[str]) -> None:
    if problems:
        raise PluginFailed(name, problems)
