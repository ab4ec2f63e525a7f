"""Check of the plugins of this installation."""

from collections.abc import Iterator

from apps.plugins.registry import REGISTRY, SETTING
from rftweb.doctor.finding import Finding, ok, warn


def check_plugins() -> Iterator[Finding]:
    """Name each plugin that is refused, with its reason; everything else works without it."""
    plugins = REGISTRY.plugins()
    for plugin in plugins:
        if plugin.refused:
            yield warn(
                "plugins",
                f"{plugin.title} of {plugin.origin} is refused: {plugin.refused}",
                f"mend it or set {SETTING} right, then restart the processes"
                if plugin.name == SETTING
                else "mend or remove it, then restart the processes",
            )
    ready = [f"{plugin.title} {plugin.version}" for plugin in plugins if not plugin.refused]
    if ready or not plugins:
        yield ok("plugins", ", ".join(ready) or "none")
