"""Base class of the embedded servers: start as a child process, wait, stop in order."""

import signal
import subprocess
import time
from abc import ABC, abstractmethod

from rftweb.parent_death import make_die_with_parent
from rftweb.progress import STALL_S, Progress

POLL_S = 0.02


class Server(ABC):
    """A server in the foreground, with its data in one folder."""

    title: str
    death_signal: signal.Signals  # sent to it when we die
    stop_signal: signal.Signals
    stop_s: float  # seconds for an orderly shutdown

    @abstractmethod
    def command(self) -> tuple[list[str], dict]:
        """Return the command line and its Popen keywords (user and group)."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether it answers a client."""

    @abstractmethod
    def clear_leftovers(self) -> None:
        """Clean up after a killed server.

        Raises RuntimeError if another one keeps running.
        """

    def start(self, **popen) -> subprocess.Popen:
        """Start the server as a child process that dies with us."""
        self.clear_leftovers()
        command, process = self.command()
        tie = make_die_with_parent(self.death_signal)
        return subprocess.Popen(command, cwd="/", preexec_fn=tie, **process, **popen)

    def wait_ready(self, process: subprocess.Popen, stall_s: float = STALL_S) -> None:
        """Wait until the server answers, however long that takes.

        Raises RuntimeError if the process ends, TimeoutError if it makes no progress for `stall_s`.
        """
        progress = Progress(process.pid, lambda: 0, stall_s)
        while not self.is_ready():
            if process.poll() is not None:
                raise RuntimeError(
                    f"{self.title} ended with code {process.returncode} while starting; its log"
                    " says why"
                )
            progress.look()
            if progress.has_stalled:
                raise TimeoutError(
                    f"{self.title} is not ready and has done nothing for {stall_s:.0f} s"
                )
            time.sleep(POLL_S)

    def stop(self, process: subprocess.Popen) -> None:
        """Shut down in order; kill after `stop_s` seconds."""
        process.send_signal(self.stop_signal)
        try:
            process.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
