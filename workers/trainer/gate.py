"""Where the training thread waits for a batch and a job waits for the update: one is always at rest.

`train()` must run once and without end (a second call resets its schedule and its step), jobs are short. So the
thread blocks in `take` between two updates; a job's `grant` hands it a batch and returns when it blocks again.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Batch = TypeVar("Batch")
LOOK_SECONDS = 0.5  # between two questions whether an update is still wanted


class Stopped(Exception):
    """Raised in the training thread: nobody will grant another batch."""


class Interrupted(Exception):
    """Nobody wants the update; it ended between two micro-batches and changed no weight."""


class TrainerDied(RuntimeError):
    """The training thread is over and can make no further update."""


class Gate(Generic[Batch]):
    """The thread calls `take`, `heed` and at its end `close`; everybody else the others."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batch: Batch | None = None
        self._at_rest = self._stopping = self._closed = self._interrupting = False
        self._error: BaseException | None = None

    def take(self) -> Batch:
        """Say that the last update is complete and block until the next batch; raises Stopped."""
        with self._changed:
            self._at_rest = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._batch is not None or self._stopping)
            if self._stopping:
                raise Stopped
            batch, self._batch = self._batch, None
            return batch

    def heed(self) -> None:
        """Called between two micro-batches; raises Interrupted where the update is to end here."""
        if self._interrupting:
            raise Interrupted("the update was interrupted between two micro-batches")

    def close(self, error: BaseException | None) -> None:
        """The thread is over, with the error that ended it if one did."""
        with self._changed:
            self._closed, self._at_rest, self._error = True, True, error
            self._changed.notify_all()

    def wait(self) -> None:
        """Block until the thread is at rest; raises what ended it."""
        with self._changed:
            self._changed.wait_for(lambda: self._at_rest)
            if self._error is not None:
                raise self._error

    def grant(self, batch: Batch, is_unwanted: Callable[[], bool] | None = None) -> None:
        """Have one update made; raises what ended the thread, or TrainerDied if it ended before.

        `is_unwanted` is asked every LOOK_SECONDS during the update. Once it returns True, the update
        ends after the current micro-batch, the thread ends, and Interrupted is raised. An update that
        is past its last micro-batch is completed.
        """
        self.wait()
        with self._changed:
            if self._closed or self._stopping:
                raise TrainerDied("the trainer has ended and takes no batch")
            self._batch, self._at_rest = batch, False
            self._changed.notify_all()
        while is_unwanted and not self._rests_within(LOOK_SECONDS):
            if is_unwanted():
                self.interrupt()
        self.wait()

    def _rests_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._at_rest, seconds)

    def interrupt(self) -> None:
        """End the update under way, and with it the thread, at its next `heed`."""
        with self._changed:
            self._interrupting = True
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread at its next rest, or at its next `heed`."""
        with self._changed:
            self._stopping = self._interrupting = True
            self._changed.notify_all()
