"""Guests that run Python: one for each program, call or set of tests."""

import functools
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from apps.rewards.sandbox import forking
from apps.rewards.sandbox.bubblewrap import NO_LIBRARIES, GuestResult, NoSandbox, Streams, run_guest
from apps.rewards.sandbox.languages import Tool, require_tool
from apps.rewards.sandbox.limits import Limits

HERE = Path(__file__).parent
ALL_PARTS = ("values.py", "prelude.py", "guest.py", "guest_calls.py", "guest_checks.py")
PARTS = {"program": ("prelude.py", "guest.py"), "calls": ALL_PARTS[:-1]}  # of the text, by role
SERVER = "fork_server.py"
OWN_IMPORT = re.compile(
    r"^from apps\.rewards\.sandbox\.\w+ import (?:\([^)]*\)|.*)\n", re.MULTILINE
)
LIBRARIES = (
    "numpy",
    "scipy",
    "sortedcontainers",
)  # that right programs use, where the machine has them
USES_LIBRARY = re.compile(rb"\b(?:numpy|np|scipy|sortedcontainers)\b")
SYSTEMS = ("/usr/lib/python3/dist-packages", "/usr/local/lib/python3/dist-packages")
RESERVED_MB = 1024  # of address space that such libraries set aside and do not use


@functools.cache
def guest_text(role: str) -> str:
    """Return the program of a guest in this role: no file of ours is seen in there."""
    return _joined(PARTS.get(role, ALL_PARTS))


@functools.cache
def server_text() -> str:
    """Return the program of the servers that fork guests."""
    return _joined((*ALL_PARTS, SERVER))


def _joined(parts: Sequence[str]) -> str:
    return "\n".join(OWN_IMPORT.sub("", (HERE / part).read_text()) for part in parts)


@dataclass(frozen=True)
class PythonGuest:
    """Guest that runs Python; `role`: see guest.py; `files`: shown below /code, by name."""

    role: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    has_prelude: bool = False

    def run(self, limits: Limits, streams: Streams) -> GuestResult:
        """Run a fresh guest to its end. Raises NoSandbox."""
        return self.run_forked(limits, streams) or self.run_alone(limits, streams)

    def run_forked(self, limits: Limits, streams: Streams) -> GuestResult | None:
        """Run a fresh guest of a server's to its end; None where no server comes up.

        Raises NoSandbox.
        """
        libraries_by_path = self._libraries(streams)
        guest_limits = self._limits(limits, streams)
        job = forking.GuestJob(self.role, self.files, self.has_prelude)
        return forking.run_forked(
            require_tool("python"), server_text(), libraries_by_path, job, guest_limits, streams
        )

    def run_alone(self, limits: Limits, streams: Streams) -> GuestResult:
        """Run a fresh guest with an interpreter of its own to its end. Raises NoSandbox."""
        tool = require_tool("python")
        libraries_by_path = self._libraries(streams)
        guest_limits = self._limits(limits, streams)
        text = f"{guest_text(self.role)}\nmain({self.role!r}, {self.has_prelude})\n"
        files = {f"/code/{name}": content for name, content in self.files.items()}
        return run_guest(
            python_command(tool, text), guest_limits, streams, files, tool.homes, libraries_by_path
        )

    def _libraries(self, streams: Streams) -> Mapping[str, str]:
        """Return the machine's libraries if the code names any."""
        stdin = streams.stdin if isinstance(streams.stdin, bytes) and self.role == "calls" else b""
        if self.role == "binary":
            return NO_LIBRARIES
        names_any = any(USES_LIBRARY.search(content) for content in (*self.files.values(), stdin))
        return libraries() if names_any else NO_LIBRARIES

    def _limits(self, limits: Limits, streams: Streams) -> Limits:
        reserved = RESERVED_MB if self._libraries(streams) else 0
        return replace(limits.deep, reserved_mb=limits.reserved_mb + reserved)


def python_command(tool: Tool, text: str) -> tuple[str, ...]:
    return (tool.path, "-S", "-s", "-B", "-c", text)


@functools.cache
def libraries() -> Mapping[str, str]:
    """Return the libraries that guests can have, by the path where they see them.

    Raises NoSandbox when no guest comes up at all.
    """
    usable = {
        name: folders
        for name in LIBRARIES
        if (folders := _folders(name)) and _can_import(name, folders)
    }
    return {place: folder for folders in usable.values() for place, folder in folders.items()}


def _folders(name: str) -> dict[str, str]:
    """Return the library's folder, and that of its shared objects: ours, or else the system's."""
    spec = importlib.util.find_spec(name)
    homes = [Path(spec.origin).parent.parent] if spec and spec.origin else []
    for home in [*homes, *map(Path, SYSTEMS)]:
        if (home / name).is_dir():
            beside = [home / name, home / f"{name}.libs"]
            return {
                f"/libraries/{folder.name}": str(folder) for folder in beside if folder.is_dir()
            }
    return {}


def _can_import(name: str, folders: Mapping[str, str]) -> bool:
    """Tell whether a guest can import the library.

    It may be another interpreter's, or lie where the guest's user cannot reach it.
    """
    tool = require_tool("python")
    text = f"import sys; sys.path.append('/libraries'); import {name}"
    limits = Limits(cpu_s=20, wall_s=60, threads=4, reserved_mb=RESERVED_MB)
    try:
        return (
            run_guest(
                python_command(tool, text), limits, homes=tool.homes, libraries=folders
            ).status
            == 0
        )
    except NoSandbox:
        return False
