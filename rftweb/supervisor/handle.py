"""A handle on `manage.py up` as a child process, for the demo, tests and benchmarks."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Self

from rftweb.parent_death import make_die_with_parent
from rftweb.places import PROGRAM
from rftweb.supervisor import record

POLL_S = 0.05
STALL_S = 180.0  # longer than the supervisor gives each of its programs


class StackFailed(RuntimeError):
    """The supervisor ended, or something did not start in time; the message says where to look."""


class Supervisor:
    """Starts and stops the whole stack, and knows its process ids.

    roles: names from rftweb.supervisor.roles.ROLES; None for all. env: added to our own
    environment. counts: instances per worker role. quiet: of the children's lines only warnings and
    errors are shown, `var/log` has all. stdout: where they are shown. When this process ends in any
    way, the stack stops in order. Start it from the main thread.

        with Supervisor(var, port=8011) as stack:
            stack.kill("trainer")
    """

    def __init__(
        self,
        var: Path,
        *,
        roles: Iterable[str] | None = None,
        env: Mapping[str, str] | None = None,
        port: int = 8000,
        counts: Mapping[str, int] | None = None,
        quiet: bool = False,
        options: Iterable[str] = (),
        stdout: IO | None = None,
    ) -> None:
        self.var = Path(var).resolve()
        self.address = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen | None = None
        self._stdout = stdout
        self._environment = {**os.environ, **(env or {}), "RFTWEB_VAR": str(self.var)}
        self._command = [*PROGRAM, "up", "--port", str(port), *options]
        self._command += [f"--{role}s={count}" for role, count in (counts or {}).items()]
        self._command += [f"--only={','.join(roles)}"] if roles is not None else []
        self._command += ["--quiet"] if quiet else []

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error) -> None:
        self.stop()

    def start(self) -> None:
        """Start `manage.py up` in a session of its own, so that Ctrl-C reaches only us.

        Raises AlreadyRunning.
        """
        record.lock_record(self.var).close()
        record.record_path(self.var).unlink(missing_ok=True)
        self.process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            start_new_session=True,
            preexec_fn=make_die_with_parent(signal.SIGTERM),
        )

    def wait_ready(self, stall_s: float = STALL_S) -> None:
        """Wait until every role is ready, however long that takes.

        Raises StackFailed if the supervisor ends, or reports no progress for `stall_s` seconds.
        """
        self._wait(lambda: self.status().get("state") == "ready", stall_s, "everything up")

    def wait_restarted(self, name: str, since: int, stall_s: float = STALL_S) -> int:
        """Return the new process id once `name`, which had id `since`, is ready again.

        Raises StackFailed as `wait_ready` does.
        """

        def is_back() -> bool:
            child = self._child(name)
            return child["state"] == "ready" and child["pid"] != since

        self._wait(is_back, stall_s, f"{name} up again")
        return self.pid(name)

    def stop(self, timeout_s: float = 90.0) -> int:
        """Stop everything in order; return the exit code (0: as requested).

        Kills processes that do not end in time.
        """
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its children die as well
            return self.process.wait()

    def status(self) -> dict:
        """Return the supervisor's record (rftweb.supervisor.record); empty until there is one."""
        return record.read_record(self.var) or {}

    def pid(self, name: str) -> int:
        """Return the process id of a role. Raise LookupError if it is not running."""
        if pid := self._child(name)["pid"]:
            return pid
        raise LookupError(f"{name} is not running now")

    def restarts(self, name: str) -> int:
        return self._child(name)["restarts"]

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to a role's process; return the id it had."""
        pid = self.pid(name)
        os.kill(pid, number)
        return pid

    def _child(self, name: str) -> dict:
        children = self.status().get("children", {})
        if name not in children:
            raise LookupError(f"no role {name!r}; there are: {', '.join(children) or 'none'}")
        return children[name]

    def is_running(self) -> bool:
        """Tell whether the supervisor's process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def _wait(self, is_so: Callable[[], bool], stall_s: float, what: str) -> None:
        """Wait for a condition while the supervisor's record keeps changing."""
        assert self.process is not None  # started
        last_record = self.status()
        moved_at = time.monotonic()
        while not is_so():
            if self.process.poll() is not None:
                raise StackFailed(
                    f"`manage.py up` ended with code {self.process.returncode}; see"
                    f" {self.var / 'log'}"
                )
            record = self.status()
            if record != last_record:
                last_record = record
                moved_at = time.monotonic()
            if time.monotonic() - moved_at > stall_s:
                logs = self.var / "log"
                raise StackFailed(
                    f"no progress for {stall_s:.0f} s, waiting for: {what}; see {logs}"
                )
            time.sleep(POLL_S)
