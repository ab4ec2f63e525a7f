"""Check of the plugins of this installation."""

from collections.abc import Iterator

from apps.plugins.registry import REGISTRY, SETTING
from rftweb.doctor.finding import Finding, ok, warn


def check_plugins() -> Iterator[Finding]:
    """Name each plugin that is refused, with its reason; everything else works without it."""
    plugins = REGISTRY.plugins()
    for one in plugins:
        if one.refused:
            yield warn(
                "plugins",
                f"{one.title} of {one.origin} is refused: {one.refused}",
                f"mend it or set {SETTING} right, then restart the processes"
                if one.name == SETTING
                else "mend or remove it, then restart the processes",
            )
    ready = [f"{one.title} {one.version}" for one in plugins if not one.refused]
    if ready or not plugins:
        yield ok("plugins", ", ".join(ready) or "none")
