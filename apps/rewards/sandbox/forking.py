"""Guests forked from a server that has imported everything: quicker than an interpreter for each.

A server (fork_server.py) is a process in bubblewrap, one for each process of ours and kind of
libraries. Where none comes up, guests are processes of bubblewrap each: `why_not_forked` says the
reason.
"""

import atexit
import contextlib
import functools
import json
import logging
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apps.rewards.sandbox import bubblewrap, cgroups
from apps.rewards.sandbox.bubblewrap import NO_LIBRARIES, NoSandbox, open_readable
from apps.rewards.sandbox.languages import Tool
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.seccomp import OF_SERVERS
from apps.rewards.sandbox.watching import START_S, GuestResult, Streams, Watch

logger = logging.getLogger(__name__)
SERVER_START_S = 60.0  # it imports its libraries, and the machine may be busy
END_S = 5.0  # that the kernel may take to end a guest's processes
LAYOUT_STACK = (
    1 << 30
)  # bytes: how far below its stack the kernel leaves room, for guests with large ones
TRIAL = Limits(cpu_s=10, wall_s=60)  # of the first guest, which shows whether any comes up
CREDENTIALS = socket.CMSG_SPACE(12)
STDIN_NAME = "stdin"  # the name of the file that /dev/stdin leads to


@dataclass(frozen=True)
class GuestJob:
    """Job of a guest: its role in guest.py, and its files by name."""

    role: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    has_prelude: bool = False


class ServerGone(Exception):
    """Raised when the server ended, or did not start; the message says why."""


class _ForkedGuest(Watch):
    """Guest of a fork server, whose init reports its start and its end."""

    def __init__(
        self, messages: socket.socket, streams: Mapping[int, str], limits: Limits, how: Streams
    ) -> None:
        super().__init__(limits, {messages.fileno(): "messages", **streams}, how)
        self.socket = messages
        self.group: cgroups.Group | None = None
        self.failure = ""  # why there is no guest
        self.handle: int | None = None  # of the init: with it end all processes of the guest
        self.status: int | None = None

    def receive(self, stream: int) -> bytes:
        try:
            message, control, _, _ = self.socket.recvmsg(4096, CREDENTIALS)
        except ConnectionResetError:  # it was killed before it had read all that was sent to it
            return b""
        if self.pid is None and control:
            self.pid = int.from_bytes(control[0][2][:4], "little")
        return message

    def hear(self, message: bytes) -> None:
        if message == b"ready":
            self._release_guest()
        elif message.startswith(b"failed"):
            self.failure = message.decode(errors="replace").partition(": ")[2]
        elif message:
            self.status = json.loads(message)["exit-code"]

    def _release_guest(self) -> None:
        """Open a handle of the guest, move it into its group, and let it begin."""
        assert self.pid is not None  # it came with the first message
        try:
            self.handle = os.pidfd_open(self.pid)
            if self.group:
                bubblewrap.move_into_group(self.group, self.pid)
            self.begin()
            self.socket.send(b"go")
        except OSError as error:  # its init was killed meanwhile
            self.failure = f"its init ended ({error.strerror})"

    @property
    def has_reported_end(self) -> bool:
        return self.status is not None or bool(self.failure)

    def end(self) -> None:
        """Kill remaining processes of the guest; wait for their end if it was stopped."""
        if self.handle is None:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        if self.stopped:
            select.select([self.handle], [], [], END_S)
        os.close(self.handle)


class Server:
    """Fork server for one set of libraries, for this process."""

    def __init__(self, tool: Tool, text: str, libraries: Mapping[str, str]) -> None:
        self.tool = tool
        self.text = text
        self.libraries = libraries
        self.lock = threading.Lock()
        self.control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.why_not = ""
        self.process: subprocess.Popen | None = None
        started = threading.Event()
        self.over = threading.Event()
        # It dies with the thread that starts it, so that thread must live as long as we do.
        threading.Thread(target=self._keep, args=(server_end, started), daemon=True).start()
        started.wait()
        self.control.settimeout(SERVER_START_S)
        try:
            if self.control.recv(8) != b"up":
                raise OSError("it ended at once")
        except OSError as error:
            self.stop()
            self.over.wait(END_S)
            raise ServerGone(self.why_not or str(error)) from None
        self.control.settimeout(START_S)
        try:
            self.run(GuestJob("program", {"program.py": b""}), TRIAL, Streams())
        except NoSandbox as why:
            self.stop()
            raise ServerGone(str(why)) from None

    def _keep(self, server_end: socket.socket, started: threading.Event) -> None:
        try:
            with (
                open_readable(bubblewrap.build_seccomp_filter(False)) as rules,
                open_readable(_rules_of_server()) as server_filter,
            ):
                command = _command(self.tool, self.text, self.libraries, rules, server_filter)
                self.process = subprocess.Popen(
                    command,
                    stdin=server_end.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={},
                    pass_fds=(rules, server_filter),
                    **bubblewrap.user_of_guests(),
                )
        except (OSError, NoSandbox) as error:
            self.why_not = str(error)
            self.over.set()
            return
        finally:
            server_end.close()
            started.set()
        assert self.process.stderr is not None  # a pipe
        with self.process.stderr as stream:
            errors = stream.read().decode(errors="replace").strip()
        self.process.wait()
        self.why_not = (
            errors.rpartition("\n")[2][:200] or f"it ended with {self.process.returncode}"
        )
        self.over.set()

    def run(self, job: GuestJob, limits: Limits, streams: Streams) -> GuestResult:
        """Run a guest to its end.

        Raises ServerGone when there is none, NoSandbox when it did not come up.
        """
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(bubblewrap.group_for(limits))
            messages, out, err = stack.enter_context(
                _request_guest(job, limits, streams, self._send)
            )
            names = {err: "err"} if out is None else {err: "err", out: "out"}
            guest = _ForkedGuest(messages, names, limits, streams)
            guest.group = group
            try:
                guest.listen()
            finally:
                guest.end()
            if group and not guest.stopped:
                guest.stopped = group.excess()
            if guest.handle is None or guest.failure:
                raise self._no_guest(guest.failure)
            if guest.status is None and not guest.stopped:
                if self._has_ended():  # its guests end with it
                    raise ServerGone(self.why_not or "it ended")
                raise NoSandbox("a sandboxed process was killed from outside (137)")
            return guest.ended(guest.status)

    def _no_guest(self, failure: str) -> Exception:
        """Return what to raise for a guest that did not come up.

        The server may have gone, or goes on.
        """
        if self._has_ended():
            return ServerGone(self.why_not or "it ended")
        return NoSandbox(
            f"a guest did not come up: {failure or f'it took longer than {START_S:g} s'}"
        )

    def _has_ended(self) -> bool:
        """Return whether the server has exited, whether or not `_keep` has collected it.

        `Popen.poll` does not tell: it returns None while `_keep` waits in `Popen.wait`.
        """
        if self.over.is_set() or self.process is None:
            return True
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        except ChildProcessError:  # `_keep` has just collected it
            return True

    def _send(self, request: bytes, descriptors: Sequence[int]) -> None:
        try:
            with self.lock:
                socket.send_fds(self.control, [request], descriptors)
        except OSError as error:
            raise ServerGone(self.why_not or str(error)) from None

    def stop(self) -> None:
        """End the server and all of its guests."""
        self.control.close()
        if self.process:
            self.process.kill()


@contextlib.contextmanager
def _request_guest(
    job: GuestJob, limits: Limits, streams: Streams, send
) -> Iterator[tuple[socket.socket, int | None, int]]:
    """Send the request with its descriptors; return our ends of the guest's streams."""
    files = dict(job.files)
    with contextlib.ExitStack() as own_ends, contextlib.ExitStack() as guest_ends:
        messages, guest_messages = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own_ends.enter_context(messages)
        guest_ends.enter_context(guest_messages)
        messages.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        stdin = streams.stdin
        if isinstance(stdin, bytes):
            files[STDIN_NAME] = stdin
            stdin = guest_ends.enter_context(open_readable(stdin))
        else:
            files[STDIN_NAME] = b""
        out, stdout = (
            (None, streams.stdout) if streams.stdout is not None else _pipe(own_ends, guest_ends)
        )
        err, stderr = _pipe(own_ends, guest_ends)
        open_files = [
            guest_ends.enter_context(open_readable(content)) for content in files.values()
        ]
        request = {
            "role": job.role,
            "prelude": job.has_prelude,
            "files": list(files),
            "space": limits.space_mb << 20,
            "limits": _limits(limits),
            **_guest_user(),
        }
        send(
            json.dumps(request).encode(),
            [guest_messages.fileno(), stdin, stdout, stderr, *open_files],
        )
        guest_ends.close()
        yield messages, out, err


def _pipe(own_ends: contextlib.ExitStack, guest_ends: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    own_ends.callback(os.close, reading)
    guest_ends.callback(os.close, writing)
    return reading, writing


def _limits(limits: Limits) -> dict[str, int]:
    return {
        f"RLIMIT_{name.upper()}": min(limit, bubblewrap.own_limit(name, limit))
        for name, limit in bubblewrap.resource_limits(limits).items()
    }


@functools.cache
def _guest_user() -> dict[str, int]:
    user = bubblewrap.user_of_guests()
    return {"user": user.get("user", os.geteuid()), "group": user.get("group", os.getegid())}


def _rules_of_server() -> bytes:
    return bubblewrap.build_seccomp_filter(True, tuple(next(iter(OF_SERVERS.values()))))


def _command(
    tool: Tool, text: str, libraries: Mapping[str, str], rules: int, server_filter: int
) -> list[str]:
    """Return the command line of a fork server, which has no capabilities and no network.

    What it makes for guests belongs to them.
    """
    mounts = bubblewrap.mount_arguments("", {**{home: home for home in tool.homes}, **libraries})
    mounts += ["--tmpfs", "/guest"]
    mounts += bubblewrap.mount_arguments(
        "/guest", {**{home: home for home in tool.homes}, **libraries}, "/code/stdin"
    )
    mounts += ["--dir", "/guest/tmp", "--dir", "/guest/code", "--proc", "/proc"]
    mounts += ["--perms", "0555", "--ro-bind-data", str(rules), "/server/rules"]
    for folder in ("/guest/dev", "/guest", "/dev", "/"):
        mounts += ["--remount-ro", folder]
    env = {**bubblewrap.ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1"}
    env_arguments = [part for name, value in env.items() for part in ("--setenv", name, value)]
    prlimit = ["/usr/bin/prlimit", f"--stack={LAYOUT_STACK}:", "--core=0", "--"]
    names = [
        name
        for name in dict.fromkeys(place.rpartition("/")[2] for place in libraries)
        if "." not in name
    ]
    python = [tool.path, "-S", "-s", "-B", "-c", text, json.dumps(names)]
    return [
        bubblewrap.bubblewrap(),
        *bubblewrap.NAMESPACES,
        *mounts,
        *env_arguments,
        *("--chdir", "/", "--seccomp", str(server_filter), "--"),
        *prlimit,
        *python,
    ]


# -- the servers of this process -------------------------------------------------------------------

_servers: dict[bool, Server] = {}
_reasons: dict[bool, str] = {}  # why there is none
_starting = threading.Lock()


def run_forked(
    tool: Tool,
    text: str,
    libraries: Mapping[str, str],
    job: GuestJob,
    limits: Limits,
    streams: Streams,
) -> GuestResult | None:
    """Run a guest of the server's for these libraries; None where none comes up.

    Raises NoSandbox.
    """
    kind = libraries != NO_LIBRARIES
    for _ in range(2):  # a server may have ended since the last guest
        server = _server(kind, tool, text, libraries)
        if server is None:
            return None
        try:
            return server.run(job, limits, streams)
        except ServerGone as gone:
            _remove_server(kind, server, str(gone))
    raise NoSandbox("the server of sandboxed processes exited twice")


def why_not_forked() -> str:
    """Return why guests are not forked here, "" where they are or none was wanted yet."""
    return _reasons.get(False, "")


def _server(kind: bool, tool: Tool, text: str, libraries: Mapping[str, str]) -> Server | None:
    with _starting:
        if kind in _reasons:
            return None
        if kind not in _servers:
            try:
                _servers[kind] = Server(tool, text, libraries)
            except ServerGone as gone:
                _reasons[kind] = str(gone)
                logger.warning(
                    "Python sandboxes cannot be forked; each starts its own interpreter: %s", gone
                )
                return None
        return _servers[kind]


def _remove_server(kind: bool, server: Server, why: str) -> None:
    with _starting:
        if _servers.get(kind) is server:
            del _servers[kind]
            logger.warning("a server of sandboxed processes exited: %s", why)
    server.stop()


def stop_fork_servers() -> None:
    """End the servers of this process, and forget why there are none."""
    with _starting:
        for server in _servers.values():
            server.stop()
        _servers.clear()
        _reasons.clear()


def _forget_parent_servers() -> None:
    """Forget the servers in a process that was forked from ours: they belong to the parent."""
    global _starting
    _starting = threading.Lock()
    for server in _servers.values():
        server.control.close()
    _servers.clear()
    _reasons.clear()


atexit.register(stop_fork_servers)
os.register_at_fork(after_in_child=_forget_parent_servers)
