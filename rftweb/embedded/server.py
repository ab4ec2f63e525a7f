"""What both embedded servers share: started as our child, waited for, stopped in order."""

import signal
import subprocess
import time
from abc import ABC, abstractmethod

from rftweb.lifeline import die_with_parent
from rftweb.progress import STALL_S, Progress

POLL_S = 0.02


class Server(ABC):
    """A server in the foreground, whose data lies under one folder."""

    title: str
    death_signal: signal.Signals  # sent to it when we die
    stop_signal: signal.Signals
    stop_s: float  # how long an orderly end may take

    @abstractmethod
    def command(self) -> tuple[list[str], dict]:
        """The command line and its Popen keywords (user and group)."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers a client."""

    @abstractmethod
    def clear_leftovers(self) -> None:
        """Clear what a killed one left behind. Raises RuntimeError when another one is there to stay."""

    def start(self, **popen) -> subprocess.Popen:
        """Start it as our child; it dies when we do."""
        self.clear_leftovers()
        command, process = self.command()
        tie = die_with_parent(self.death_signal)
        return subprocess.Popen(command, cwd="/", preexec_fn=tie, **process, **popen)

    def wait_ready(self, process: subprocess.Popen, stall_s: float = STALL_S) -> None:
        """Return when it answers, however long that takes.

        Raises RuntimeError when the process ends, TimeoutError when it does nothing for `stall_s`.
        """
        progress = Progress(process.pid, lambda: 0, stall_s)
        while not self.is_ready():
            if process.poll() is not None:
                raise RuntimeError(f"{self.title} ended with code {process.returncode} while starting; its log says why")
            progress.look()
            if progress.has_stalled:
                raise TimeoutError(f"{self.title} is not ready and has done nothing for {stall_s:.0f} s")
            time.sleep(POLL_S)

    def stop(self, process: subprocess.Popen) -> None:
        """Orderly end; after `stop_s` seconds, kill."""
        process.send_signal(self.stop_signal)
        try:
            process.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
