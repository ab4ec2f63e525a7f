"""What the supervisor needs to know of one program to keep it alive."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SERVICE_STAGE, WORK_STAGE, BEAT_STAGE = 0, 1, 2
WORKER_STOP = ((signal.SIGTERM, 20.0), (signal.SIGQUIT, 6.0))


class CannotStart(RuntimeError):
    """Something on this machine is in the way; starting again would not help. The message says what to do."""


@dataclass(frozen=True)
class Program:
    """One program and how to run it.

    name: of the role, with a number from the second instance on (explorer, explorer-2).
    stage: programs of one stage start together; the next stage waits until all are ready.
    prepare: called before every start, in a thread; returns the command line and Popen keywords.
    is_ready: probe, called in a thread with the process id until it says True.
    kin: ids of living processes of this program that the marker in their environment would not find.
    stop: signals in order, each with the seconds it is given before the next; SIGKILL to the group ends the list.
    """

    name: str
    stage: int
    prepare: Callable[[], tuple[list[str], dict]]
    is_ready: Callable[[int], bool]
    stop: tuple[tuple[signal.Signals, float], ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    death_signal: signal.Signals = signal.SIGKILL
    kin: Callable[[], set[int]] = set

    @property
    def role(self) -> str:
        """The name without its number: explorer-2 plays explorer."""
        return self.name.split("-")[0]
