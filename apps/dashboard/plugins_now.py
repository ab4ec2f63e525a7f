"""Plugins on the workers page: refused ones, and versions that differ among processes."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.accounts.public_text import public_text
from apps.plugins.registry import REGISTRY, Entry
from apps.runs.models import Worker

NAMED = 5  # processes with another version that are named


@dataclass(frozen=True)
class ShownPlugin:
    """Plugin of this web process, or of a worker alone; `others`: processes where it differs."""

    name: str
    origin: str
    version: str
    why: str = ""
    others: str = ""

    @property
    def is_refused(self) -> bool:
        return bool(self.why)


def plugins(workers: Iterable[Worker]) -> list[ShownPlugin]:
    """Return all plugins, compared with what these processes had when they started."""
    theirs = {worker: worker.details.get("plugins", {}) for worker in workers}
    ours = {one.title: one for one in REGISTRY.plugins()}
    elsewhere = sorted({name for versions in theirs.values() for name in versions} - ours.keys())
    missing = [
        ShownPlugin(name, "", "missing", others=_others(name, "", theirs)) for name in elsewhere
    ]
    return [_build_row(one, theirs) for one in ours.values()] + missing


def _build_row(one: Entry, theirs: dict[Worker, dict[str, str]]) -> ShownPlugin:
    version = "refused" if one.refused else str(one.version)
    others = _others(one.title, version, theirs)
    return ShownPlugin(one.title, one.origin, version, public_text(one.refused), others)


def _others(name: str, version: str, theirs: dict[Worker, dict[str, str]]) -> str:
    """Return the processes with another version of the plugin, in words."""
    others = [
        f"{worker.role} {worker.host}:{worker.pid}: {reported.get(name, 'missing')}"
        for worker, reported in theirs.items()
        if reported.get(name, "missing") != version
    ]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return ", ".join(others[:NAMED]) + more
