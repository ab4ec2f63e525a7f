"""Guests by bubblewrap: no network, no files but the interpreter's, an empty environment.

A guest sees no processes but its own.

Started as root it becomes another user first: root is bound by no limit of processes. prlimit sets
the guest's limits inside of it, a filter of system calls (seccomp.py) closes what namespaces leave
open; here the wall clock ends what sleeps, and what comes back is capped. Expected answers never go
in.
"""

import contextlib
import json
import math
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.rewards.sandbox import cgroups, seccomp
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.watching import (
    FOLDER,
    START_S,
    TOO_MUCH,
    TOO_SLOW,
    GuestResult,
    Streams,
    Watch,
)

__all__ = ["TOO_MUCH", "TOO_SLOW", "GuestResult", "NoSandbox", "Streams", "run_guest"]

NOBODY = 64999  # whom root becomes
SYSTEM = (
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/include",
    "/usr/libexec",
)  # what is not there is left out
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
NAMESPACES = ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session")
ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}  # a set has the same order every time
MISSING = (
    "no sandbox: bubblewrap, prlimit and user namespaces are required; run `manage.py "
    "doctor` for details"
)


class NoSandbox(Exception):
    """Raised if this machine has no sandbox, or it did not start; nothing was run."""


NO_LIBRARIES: Mapping[str, str] = {}
CHILD = re.compile(rb'"child-pid": (\d+)\D')  # of what bubblewrap tells, in pieces
SIGNALS = 128  # that may wait, timers included
THREAD_STACK_MB = 64
ARENA_MB = 128  # of address space, which the C library sets aside for each thread


def run_guest(
    command: Sequence[str],
    limits: Limits,
    streams: Streams = Streams(),  # noqa: B008 - frozen
    files: Mapping[str, bytes] | None = None,
    homes: Sequence[str] = (),
    libraries: Mapping[str, str] = NO_LIBRARIES,
) -> GuestResult:
    """Run this inside a guest until its end. Raises NoSandbox when the guest did not come up.

    files      what else it sees, by path
    homes      folders and files outside the system's that it sees, where its interpreter needs them
    libraries  others, by the path where it sees them
    """
    with contextlib.ExitStack() as stack:
        outer, inner = os.pipe()
        stack.callback(os.close, outer)
        stdin = streams.stdin if isinstance(streams.stdin, bytes) else b""
        contents = {
            # /dev/stdin links to this; the guest has no other /proc.
            "/proc/self/fd/0": stdin,
            **(files or {}),
        }
        open_files = {
            path: stack.enter_context(open_readable(content)) for path, content in contents.items()
        }
        rules = stack.enter_context(open_readable(build_seccomp_filter(limits.processes > 0)))
        gate = stack.enter_context(gate_for(limits))
        arguments = _command(
            command,
            limits,
            open_files,
            {**{home: home for home in homes}, **libraries},
            rules,
            inner,
        )
        if gate:
            arguments[1:1] = ["--block-fd", str(gate.inner)]
        reading = streams.stdin
        if isinstance(reading, bytes):
            reading = stack.enter_context(open_readable(reading))
        descriptors = (rules, inner, *open_files.values(), *([gate.inner] if gate else []))
        try:
            guest = subprocess.Popen(
                arguments,
                stdin=reading,
                stdout=subprocess.PIPE if streams.stdout is None else streams.stdout,
                stderr=subprocess.PIPE,
                env={},
                pass_fds=descriptors,
                **user_of_guests(),
            )
        finally:
            os.close(inner)
        return _ended(guest, _BubblewrappedGuest(outer, limits, guest, gate, streams), limits)


@dataclass(frozen=True)
class Gate:
    """Start gate of a guest, which waits at `inner` until it is in its cgroup."""

    group: cgroups.Group
    inner: int
    outer: int

    def open(self, pid: int) -> None:
        """Move the process into its cgroup and let it start. Raises NoSandbox."""
        move_into_group(self.group, pid)
        os.write(self.outer, b"1")


def move_into_group(group: cgroups.Group, pid: int) -> None:
    """Move a process into a cgroup. Raises NoSandbox."""
    try:
        group.take(pid)
    except OSError as error:
        raise NoSandbox(f"the process cannot be added to its cgroup: {error.strerror}") from None


@contextlib.contextmanager
def gate_for(limits: Limits) -> Iterator[Gate | None]:
    """Make a group for the guest; None where no cgroup is delegated to us. Raises NoSandbox."""
    with group_for(limits) as group:
        if group is None:
            yield None
            return
        inner, outer = os.pipe()
        try:
            yield Gate(group, inner, outer)
        finally:
            os.close(inner)
            os.close(outer)


@contextlib.contextmanager
def group_for(limits: Limits) -> Iterator[cgroups.Group | None]:
    """Make a group for the guest; None where no cgroup is delegated to us. Raises NoSandbox."""
    folder = cgroups.delegation().folder
    if folder is None:
        yield None
        return
    try:
        group = cgroups.Group(folder, limits)
    except OSError as error:
        raise NoSandbox(f"the cgroup cannot be created: {error.strerror}") from None
    try:
        yield group
    finally:
        _remove(group)


def _remove(group: cgroups.Group) -> None:
    try:
        group.remove()
    except OSError as error:
        raise NoSandbox(f"the cgroup cannot be removed: {error.strerror}") from None


def build_seccomp_filter(processes: bool, more: Sequence[str] = ()) -> bytes:
    """Return the filter of system calls. Raises NoSandbox."""
    try:
        return seccomp.program(processes, more)
    except seccomp.UnknownMachine as unknown:
        raise NoSandbox(str(unknown)) from None


@contextlib.contextmanager
def open_readable(content: bytes) -> Iterator[int]:
    """Yield a descriptor from which the content is read."""
    file = seccomp.as_file(content, "guest")
    try:
        yield file
    finally:
        os.close(file)


class _BubblewrappedGuest(Watch):
    """Guest of bubblewrap, which reports its process and its end as lines of JSON."""

    def __init__(
        self,
        outer: int,
        limits: Limits,
        guest: subprocess.Popen,
        gate: Gate | None,
        how: Streams,
    ) -> None:
        assert guest.stderr is not None  # a pipe
        streams = {outer: "messages", guest.stderr.fileno(): "err"}
        if guest.stdout:
            streams[guest.stdout.fileno()] = "out"
        super().__init__(limits, streams, how)
        self.gate = gate
        self.messages = b""

    def hear(self, message: bytes) -> None:
        if not self.messages and message:
            self.begin()
        self.messages += message
        if self.pid is None and (child := CHILD.search(self.messages)):
            self.pid = int(child[1])
            if self.gate:
                self.gate.open(self.pid)

    @property
    def status(self) -> int | None:
        """Return the last exit status that bubblewrap reported.

        It reports one only for a guest that came up.
        """
        whole = self.messages[: self.messages.rfind(b"\n") + 1]  # it may be stopped amid a line
        statuses = [json.loads(line).get("exit-code") for line in whole.splitlines()]
        return statuses[-1] if statuses else None


def _ended(guest: subprocess.Popen, watch: _BubblewrappedGuest, limits: Limits) -> GuestResult:
    try:
        watch.listen()
    finally:
        guest.kill()
        guest.wait()
        for stream in (guest.stdout, guest.stderr):
            if stream:
                stream.close()
    if watch.gate and not watch.stopped:
        watch.stopped = watch.gate.group.excess()
    if (watch.status is None and not watch.stopped) or not watch.messages:
        why = (
            watch.err.decode(errors="replace").strip()[:200] or f"it ended with {guest.returncode}"
        )
        raise NoSandbox(
            f"the sandbox did not start within {START_S:g} s"
            if watch.stopped
            else f"{MISSING} ({why})"
        )
    return watch.ended(watch.status)


def _command(
    command: Sequence[str],
    limits: Limits,
    files: Mapping[str, int],
    homes: Mapping[str, str],
    rules: int,
    status_pipe: int,
) -> list[str]:
    """Return the bubblewrap command line of a guest.

    The guest's user cannot create namespaces. The guest's processes end with it, and it ends with
    this process.
    """
    namespaces = [*NAMESPACES, "--disable-userns"]
    mounts = mount_arguments("", homes)
    for path, descriptor in files.items():
        mounts += ["--perms", "0555", "--ro-bind-data", str(descriptor), path]
    folder_arguments = ["--size", str(limits.space_mb << 20), "--tmpfs", FOLDER, "--chdir", FOLDER]
    folder_arguments += ["--remount-ro", "/dev", "--remount-ro", "/"]
    env_arguments = [
        part for name, value in ENVIRONMENT.items() for part in ("--setenv", name, value)
    ]
    monitoring = ["--seccomp", str(rules), "--json-status-fd", str(status_pipe)]
    return [
        bubblewrap(),
        *namespaces,
        *mounts,
        *folder_arguments,
        *env_arguments,
        *monitoring,
        "--",
        *_limited(limits),
        *command,
    ]


def mount_arguments(root: str, homes: Mapping[str, str], stdin: str = "") -> list[str]:
    """Return bubblewrap's arguments for the files that a guest sees below this folder.

    `stdin` is the guest's path to its input, for its /dev/stdin. It is "" if the input is put there
    in another way.
    """
    places = {**{path: path for path in SYSTEM}, **homes}
    arguments = [
        part for place, path in places.items() for part in ("--ro-bind-try", path, f"{root}{place}")
    ]
    arguments += ["--tmpfs", f"{root}/dev"]
    for device in DEVICES:
        arguments += ["--dev-bind", device, f"{root}{device}"]
    for link, target in LINKS.items():
        arguments += ["--symlink", target, f"{root}{link}"]
    if stdin:
        arguments += ["--symlink", stdin, f"{root}/proc/self/fd/0"]
    return arguments


def _limited(limits: Limits) -> list[str]:
    """Return prlimit with the guest's limits, none of them above our own."""
    kernel_limits = resource_limits(limits)
    return [
        "/usr/bin/prlimit",
        *(
            f"--{name}={min(limit, own_limit(name, limit))}"
            for name, limit in kernel_limits.items()
        ),
        "--",
    ]


def resource_limits(limits: Limits) -> dict[str, int]:
    """Return the kernel's limits of each process in the guest, by their names."""
    memory = limits.memory_mb << 20
    of_thread = min(memory // 2, THREAD_STACK_MB << 20)  # set aside, of which it uses little
    stack = max(limits.stack_mb << 20, of_thread)
    data = memory + limits.threads * of_thread
    return {
        "as": data + stack + ((limits.reserved_mb + limits.threads * ARENA_MB) << 20),
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


def own_limit(name: str, unlimited: int) -> int:
    """Return our own hard limit of this name, `unlimited` where we have none."""
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    return unlimited if hard == resource.RLIM_INFINITY else hard


def bubblewrap() -> str:
    """Return its path. Raises NoSandbox."""
    path = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))
    if path is None:
        raise NoSandbox(MISSING)
    return path


def user_of_guests() -> dict:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
