"""A guest by bubblewrap: no network, no files but the interpreter's, no processes but its own, an empty environment.

Started as root it becomes another user first: root is bound by no limit of processes. prlimit sets the guest's limits inside of
it, a filter of system calls (seccomp.py) closes what namespaces leave open; here the wall clock ends what sleeps, and what comes
back is capped. Expected answers never go in.
"""

import contextlib
import json
import math
import os
import re
import resource
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.rewards.sandbox import cgroups, seccomp
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.usage import INTERVAL_S, Usage

START_S = 10.0  # that a guest may take to come up
NOBODY = 64999  # whom root becomes
KEPT_OF_ERRORS = 4 << 10  # bytes of what it writes to its standard error; the rest is read and forgotten
KILLED = 137  # how bubblewrap tells that the kernel killed it
SYSTEM = ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/include", "/usr/libexec")  # what is not there is left out
# Not bubblewrap's own /dev: its ptmx, tty and console block who reads them.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
LINKS = {
    "/lib": "usr/lib",
    "/lib64": "usr/lib64",
    "/bin": "usr/bin",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/fd": "/proc/self/fd",
}
FIRST = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}  # a set has the same order every time
MISSING = "no sandbox here: it needs bubblewrap, prlimit and user namespaces; `manage.py doctor` says more"


class NoSandbox(Exception):
    """There is none on this machine, or it did not come up; nothing was run."""


@dataclass(frozen=True)
class Ended:
    """What became of a guest.

    `status`: its exit status, None when it was stopped; `stopped`: by which limit, "" when by none; `seconds`: by the clock.
    """

    stdout: bytes
    stderr: bytes
    status: int | None
    stopped: str
    seconds: float


TOO_SLOW = "it took too long"
TOO_MUCH = "it wrote too much"
FOLDER = "/tmp"  # the only one that a guest writes to
CHILD = re.compile(rb'"child-pid": (\d+)\D')  # of what bubblewrap tells, in pieces
SIGNALS = 128  # that may wait, timers included
ARENA_MB = 128  # of address space, which the C library sets aside for each thread


def start(
    command: Sequence[str], limits: Limits, stdin: bytes = b"", files: Mapping[str, bytes] | None = None, homes: Sequence[str] = ()
) -> Ended:
    """Run this inside a guest until its end. Raises NoSandbox when the guest did not come up.

    `files`: what else it sees, by path; `homes`: folders beside the system's that it sees, where its interpreter lies outside.
    """
    with contextlib.ExitStack() as held:
        outer, inner = os.pipe()
        held.callback(os.close, outer)
        seen = {"/proc/self/fd/0": stdin, **(files or {})}  # there /dev/stdin points; there is no /proc but this
        opened = {path: held.enter_context(_readable(content)) for path, content in seen.items()}
        rules = held.enter_context(_readable(_rules(limits)))
        gate = held.enter_context(_gate(limits))
        asked = _command(command, limits, opened, homes, rules, inner)
        if gate:
            asked[1:1] = ["--block-fd", str(gate.inner)]
        reading = held.enter_context(_readable(stdin))
        passed = (rules, inner, *opened.values(), *([gate.inner] if gate else []))
        try:
            guest = subprocess.Popen(
                asked,
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},
                pass_fds=passed,
                **_whom(),
            )
        finally:
            os.close(inner)
        return _ended(guest, _Heard(outer, limits, guest, gate), limits)


@dataclass(frozen=True)
class _Gate:
    """The guest waits at `inner` until it was taken into its group."""

    group: cgroups.Group
    inner: int
    outer: int

    def open(self, pid: int) -> None:
        """Raises NoSandbox."""
        try:
            self.group.take(pid)
        except OSError as error:
            raise NoSandbox(f"the guest's cgroup does not take it: {error.strerror}") from None
        os.write(self.outer, b"1")


@contextlib.contextmanager
def _gate(limits: Limits) -> Iterator[_Gate | None]:
    """Make a group for the guest; None where no cgroup is delegated to us. Raises NoSandbox."""
    folder = cgroups.delegation().folder
    if folder is None:
        yield None
        return
    try:
        group = cgroups.Group(folder, limits)
    except OSError as error:
        raise NoSandbox(f"no cgroup for the guest: {error.strerror}") from None
    inner, outer = os.pipe()
    try:
        yield _Gate(group, inner, outer)
    finally:
        os.close(inner)
        os.close(outer)
        _remove(group)


def _remove(group: cgroups.Group) -> None:
    try:
        group.remove()
    except OSError as error:
        raise NoSandbox(f"the guest's cgroup does not end: {error.strerror}") from None


def _rules(limits: Limits) -> bytes:
    try:
        return seccomp.program(limits.processes > 0)
    except seccomp.UnknownMachine as unknown:
        raise NoSandbox(str(unknown)) from None


@contextlib.contextmanager
def _readable(content: bytes) -> Iterator[int]:
    file = seccomp.as_file(content, "guest")
    try:
        yield file
    finally:
        os.close(file)


class _Heard:
    """What a guest says until it ends, or is stopped: `stopped` tells by what."""

    def __init__(
        self, outer: int, limits: Limits, guest: subprocess.Popen, gate: _Gate | None
    ) -> None:
        self.limits, self.outer = limits, outer
        self.gate = gate
        self.out, self.err, self.told, self.stopped = b"", b"", b"", ""
        self.streams = {outer: "told", guest.stdout.fileno(): "out", guest.stderr.fileno(): "err"}
        self.began = time.monotonic()
        self.ends = self.began + START_S
        self.pid: int | None = None
        self.usage: Usage | None = None
        self.looked_at = 0.0

    def listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for stream in self.streams:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map() and not self.stopped:
                left = max(0.0, self.ends - time.monotonic())
                for key, _ in selector.select(min(left, INTERVAL_S)):
                    if not self._take(key.fd):
                        selector.unregister(key.fd)
                if time.monotonic() > self.ends:
                    self.stopped = self.stopped or TOO_SLOW
                self._look()

    def _look(self) -> None:
        """Stop a guest that takes too much memory; not more often than each INTERVAL_S."""
        now = time.monotonic()
        if self.stopped or now - self.looked_at < INTERVAL_S:
            return
        self.looked_at = now
        if self.usage is None:
            if self.pid is None:
                return
            self.usage = Usage(self.pid, self.limits, FOLDER)
        self.stopped = self.usage.excess()

    def _take(self, stream: int) -> int:
        more = os.read(stream, 64 << 10)
        which = self.streams[stream]
        if which == "told" and not self.told and more:
            self.began = time.monotonic()  # from now on it is the guest's time
            self.ends = self.began + self.limits.wall_s
        if which != "err" or len(self.err) < KEPT_OF_ERRORS:
            setattr(self, which, getattr(self, which) + more)
        if which == "told" and self.pid is None and (found := CHILD.search(self.told)):
            self.pid = int(found[1])
            if self.gate:
                self.gate.open(self.pid)
        if len(self.out) > self.limits.output_bytes:
            self.stopped = TOO_MUCH
        return len(more)

    @property
    def status(self) -> int | None:
        """The last exit status that bubblewrap told; it tells one only of a guest that came up."""
        said = [json.loads(line).get("exit-code") for line in self.told.splitlines()]
        return said[-1] if said else None


def _ended(guest: subprocess.Popen, heard: _Heard, limits: Limits) -> Ended:
    try:
        heard.listen()
    finally:
        guest.kill()
        guest.wait()
        guest.stdout.close()
        guest.stderr.close()
    if heard.gate and not heard.stopped:
        heard.stopped = heard.gate.group.excess()
    if (heard.status is None and not heard.stopped) or not heard.told:
        why = heard.err.decode(errors="replace").strip()[:200] or f"it ended with {guest.returncode}"
        raise NoSandbox(f"the sandbox did not come up within {START_S:g} s" if heard.stopped else f"{MISSING} ({why})")
    seconds = time.monotonic() - heard.began
    slow = heard.status == KILLED and seconds > 0.9 * limits.cpu_s  # what the kernel killed sooner took too much memory
    stopped = heard.stopped or (TOO_SLOW if slow else "")
    status = None if stopped else heard.status
    return Ended(heard.out[: limits.output_bytes], heard.err[:KEPT_OF_ERRORS], status, stopped, seconds)


def _command(
    command: Sequence[str], limits: Limits, files: Mapping[str, int], homes: Sequence[str], rules: int, told: int
) -> list[str]:
    """Its user cannot make namespaces of its own; with it die all its processes, and it dies with us."""
    apart = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    seen = [part for path in (*SYSTEM, *homes) for part in ("--ro-bind-try", path, path)]
    seen += ["--tmpfs", "/dev"]
    for device in DEVICES:
        seen += ["--dev-bind", device, device]
    for link, target in LINKS.items():
        seen += ["--symlink", target, link]
    for path, descriptor in files.items():
        seen += ["--perms", "0555", "--ro-bind-data", str(descriptor), path]
    room = ["--size", str(limits.space_mb << 20), "--tmpfs", FOLDER, "--chdir", FOLDER]
    room += ["--remount-ro", "/dev", "--remount-ro", "/"]
    env = [part for name, value in FIRST.items() for part in ("--setenv", name, value)]
    watched = ["--seccomp", str(rules), "--json-status-fd", str(told)]
    return [_bubblewrap(), *apart, *seen, *room, *env, *watched, "--", *_limited(limits), *command]


def _limited(limits: Limits) -> list[str]:
    """prlimit with the guest's limits, none of them above what we have ourselves."""
    memory = limits.memory_mb << 20
    stack = min(memory // 2, 64 << 20)  # of each thread, which sets it aside and uses little
    data = memory + limits.threads * stack
    wanted = {
        "as": data + ((limits.reserved_mb + limits.threads * ARENA_MB) << 20),
        "data": data,
        "cpu": math.ceil(limits.cpu_s),
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
        "nproc": limits.threads + limits.processes + 2,
        "core": 0,
        "stack": stack,
        "memlock": 0,
        "msgqueue": 0,
        "sigpending": SIGNALS,
    }
    return ["/usr/bin/prlimit", *(f"--{name}={min(most, _ours(name, most))}" for name, most in wanted.items()), "--"]


def _ours(name: str, unlimited: int) -> int:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return unlimited if hard == resource.RLIM_INFINITY else hard


def _bubblewrap() -> str:
    found = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))
    if found is None:
        raise NoSandbox(MISSING)
    return found


def _whom() -> dict:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
