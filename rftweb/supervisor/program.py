"""Description of one program that the supervisor runs."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SERVICE_STAGE = 0
WORK_STAGE = 1
BEAT_STAGE = 2
WORKER_STOP = ((signal.SIGTERM, 20.0), (signal.SIGQUIT, 6.0))


class CannotStart(RuntimeError):
    """A condition of this machine prevents the start, and a retry would not help.

    The message says what to do.
    """


@dataclass(frozen=True)
class Program:
    """One program and how to run it.

    name: of the role, with a number from the second instance on (explorer, explorer-2). stage:
    programs of one stage start together; the next stage waits until all are ready. prepare: called
    before every start, in a thread; returns the command line and Popen keywords. is_ready: a probe,
    called in a thread with the process id until it returns True. kin: ids of live processes of this
    program that the marker in their environment would not find. stop: signals in order, each with
    the seconds before the next; SIGKILL to the group ends the list.
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
        """Return the name without its number: the role of explorer-2 is explorer."""
        return self.name.split("-")[0]
