"""A guest by bubblewrap: no network, no files but the interpreter's, no processes but its own, an empty environment.

Started as root it becomes another user first: root is bound by no limit of processes. The guest's code is under limits of its own
(guest.py); here the wall clock ends what sleeps, and what comes back is capped and read strictly. Expected answers never go in.
"""

import functools
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path

from apps.accounts import strict_json

CPU_S, WALL_S = 1, 4.0  # of the code; the second is for what sleeps
START_S = 10.0  # that a guest may take to come up
NOBODY = 64999  # whom root becomes
SPACE_BYTES = 4 << 20  # of the guest's only folder, in memory
LONGEST_ANSWER = 64 << 10  # bytes
KILLED = (" 137", " -9")  # how bubblewrap tells that the processor's time was up
UNREADABLE = "what it gave cannot be read"
GUEST = Path(__file__).with_name("guest.py")
MISSING = "no sandbox here: it needs bubblewrap (Debian's package) and user namespaces; `manage.py doctor` says more"


class NoSandbox(Exception):
    """There is none on this machine, or it did not come up; nothing was run."""


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple


@dataclass(frozen=True)
class Outcome:
    """What a call gave; with `error`, why it gave nothing."""

    value: object = None
    error: str = ""


def run(code: str, calls: Sequence[Call]) -> list[Outcome]:
    """What each of these calls gave, after this code was run. Raises NoSandbox.

    Code that takes too long, or down its interpreter, gave nothing in any call.
    """
    asked = dumps({"code": code, "calls": [(call.function, call.arguments) for call in calls]}).encode() + b"\n"
    lines, ended = _asked(interpreter(), asked)
    if not lines or lines[0] != b"up":
        raise NoSandbox(f"the sandbox did not come up within {START_S:g} s" if ended is None else f"{MISSING} ({ended})")
    said = _read(lines[1], len(calls)) if len(lines) > 1 else None
    return said or [Outcome(error=_why(ended))] * len(calls)


def _why(ended: str | None) -> str:
    if ended is None or ended.endswith(KILLED):
        return f"it took longer than {CPU_S} s"
    return UNREADABLE if ended.endswith((" 0", UNREADABLE)) else "it ended its process"


def _read(line: bytes, several: int) -> list[Outcome] | None:
    """The answers, as far as they can be believed to be some: the code could have written them itself."""
    try:
        said = strict_json.decode(line)
    except strict_json.NotStrictJson:
        return None
    if not isinstance(said, list) or len(said) != several or not all(isinstance(one, dict) for one in said):
        return None
    return [Outcome(one.get("value"), str(one.get("error", ""))[:200]) for one in said]


def _asked(python: str, line: bytes) -> tuple[list[bytes], str | None]:
    """The lines that the guest wrote, and how it ended; None: it was stopped by the wall clock."""
    guest = subprocess.Popen(
        command(python), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, **_whom()
    )
    try:
        guest.stdin.write(line)
        guest.stdin.close()
        return _heard(guest)
    except BrokenPipeError:
        return [], f"it ended with {guest.wait()}"
    finally:
        guest.kill()
        guest.stdout.close()
        guest.wait()


def _heard(guest: subprocess.Popen) -> tuple[list[bytes], str | None]:
    read, ends = b"", time.monotonic() + START_S
    with selectors.DefaultSelector() as selector:
        selector.register(guest.stdout, selectors.EVENT_READ)
        while len(read) <= LONGEST_ANSWER and selector.select(max(0.0, ends - time.monotonic())):
            more = os.read(guest.stdout.fileno(), LONGEST_ANSWER)
            if not more:
                return read.split(b"\n")[:-1], f"it ended with {guest.wait()}"
            if b"\n" not in read and b"\n" in more:
                ends = time.monotonic() + WALL_S
            read += more
    if len(read) > LONGEST_ANSWER:
        return read.split(b"\n", 1)[:1], UNREADABLE
    return read.split(b"\n")[:-1], None


def command(python: str) -> list[str]:
    """Its user cannot make namespaces of its own; with it die all its processes, and it dies with us."""
    base = str(Path(python).resolve().parent.parent)
    apart = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    bound = [] if base == "/usr" else ["--ro-bind", base, base]
    seen = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", *bound]
    room = ["--dev", "/dev", "--size", str(SPACE_BYTES), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    room += ["--remount-ro", "/dev", "--remount-ro", "/"]
    env = ["--setenv", "PYTHONHASHSEED", "0"]  # a set has the same order every time
    return [_bubblewrap(), *apart, *seen, *room, *env, python, "-S", "-s", "-B", "-c", GUEST.read_text(), str(CPU_S)]


def _bubblewrap() -> str:
    found = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))
    if found is None:
        raise NoSandbox(MISSING)
    return found


def _whom() -> dict:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def require() -> None:
    """Raises NoSandbox when there is none here."""
    interpreter()


@functools.cache
def interpreter() -> str:
    """One that the guest's user can reach: ours, or the system's. Raises NoSandbox when no guest comes up with either."""
    for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        lines, _ = _asked(python, b'{"code": "", "calls": []}\n')
        if lines[:1] == [b"up"]:
            return python
    raise NoSandbox(MISSING)
