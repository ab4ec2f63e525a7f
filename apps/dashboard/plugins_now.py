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
    versions_by_worker = {worker: worker.details.get("plugins", {}) for worker in workers}
    entries = REGISTRY.plugins()
    ready = {entry.title for entry in entries if not entry.refused}
    elsewhere = sorted(
        {name for versions in versions_by_worker.values() for name in versions}
        - {entry.title for entry in entries}
    )
    missing = [
        ShownPlugin(name, "", "missing", others=_describe_differing(name, "", versions_by_worker))
        for name in elsewhere
    ]
    rows = [
        # Processes report the version of the one that is ready, if two have this name.
        _build_row(entry, {} if entry.refused and entry.title in ready else versions_by_worker)
        for entry in entries
    ]
    return rows + missing


def _build_row(entry: Entry, versions_by_worker: dict[Worker, dict[str, str]]) -> ShownPlugin:
    version = "refused" if entry.refused else str(entry.version)
    differing = _describe_differing(entry.title, version, versions_by_worker)
    return ShownPlugin(entry.title, entry.origin, version, public_text(entry.refused), differing)


def _describe_differing(
    name: str, version: str, versions_by_worker: dict[Worker, dict[str, str]]
) -> str:
    """Return the processes with another version of the plugin, in words."""
    differing = [
        f"{worker.role} {worker.host}:{worker.pid}: {reported.get(name, 'missing')}"
        for worker, reported in versions_by_worker.items()
        if reported.get(name, "missing") != version
    ]
    more = f" and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
    return ", ".join(differing[:NAMED]) + more
