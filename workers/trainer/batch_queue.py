"""Pass batches from a job to the training thread.

`train()` must run once and without end (a second call resets its schedule and its step), while jobs
are short. So the thread blocks in `get` between two steps, and a job's `put` gives it a batch and
returns when the thread blocks again. One of the two always waits for the other.
"""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from workers.trainer.ranks import ALONE, Command, Ranks

Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)
LOOK_SECONDS = 0.5  # between two checks whether a step is still wanted
INTERRUPTED = "the step was interrupted between two micro-batches"


class Stopped(Exception):
    """Raised in the training thread when no further batch will come."""


class Interrupted(Exception):
    """Raised when an unwanted step ended between two micro-batches, with weights unchanged."""


class TrainerDied(RuntimeError):
    """Raised when the training thread has ended and can make no further step."""


class BatchSource(Protocol[Batch_co]):
    """What a trainer takes its batches from."""

    def get(self) -> Batch_co:
        """Return the next batch. Raises Stopped."""

    def raise_if_interrupted(self) -> None:
        """Raise Interrupted if the step is to end now; called between two micro-batches."""


class BatchQueue(Generic[Batch]):
    """Queue of one batch between the jobs and the thread of one trainer.

    The thread calls `get`, `raise_if_interrupted` and finally `close`; jobs call the other methods.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batch: Batch | None = None
        self._at_rest = self._stopping = self._closed = self._interrupting = False
        self._error: BaseException | None = None

    def get(self) -> Batch:
        """Mark the last step as complete and wait for the next batch. Raises Stopped."""
        with self._changed:
            self._at_rest = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._batch is not None or self._stopping)
            if self._stopping:
                raise Stopped
            batch = self._batch
            assert batch is not None
            self._batch = None
            return batch

    def raise_if_interrupted(self) -> None:
        """Raise Interrupted if the step is to end now; called between two micro-batches."""
        if self._interrupting:
            raise Interrupted(INTERRUPTED)

    def close(self, error: BaseException | None) -> None:
        """Record that the thread has ended, with its error if any; the first error is kept."""
        with self._changed:
            self._closed = self._at_rest = True
            self._error = self._error or error
            self._changed.notify_all()

    def wait_for_stop(self) -> None:
        """Block until `stop`."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping)

    def wait(self) -> None:
        """Block until the thread waits for a batch. Raises the error that ended the thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._at_rest)
            if self._error is not None:
                raise self._error

    def put(self, batch: Batch, is_unwanted: Callable[[], bool] | None = None) -> None:
        """Let the thread make one step, and return when it is made.

        Raises the error that ended the thread, or TrainerDied if it ended before. `is_unwanted` is
        called every LOOK_SECONDS during the step. Once it returns True, the step ends after the
        current micro-batch, the thread ends, and Interrupted is raised. A step that is past its
        last micro-batch is completed.
        """
        self.wait()
        with self._changed:
            if self._closed or self._stopping:
                raise TrainerDied("the trainer has stopped and takes no batch")
            self._batch = batch
            self._at_rest = False
            self._changed.notify_all()
        while is_unwanted and not self._rests_within(LOOK_SECONDS):
            if is_unwanted():
                self.interrupt()
        self.wait()

    def _rests_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._at_rest, seconds)

    def interrupt(self) -> None:
        """End the current step, and with it the thread, at its next `raise_if_interrupted`."""
        with self._changed:
            self._interrupting = True
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread when it next waits, or at its next `raise_if_interrupted`."""
        with self._changed:
            self._stopping = self._interrupting = True
            self._changed.notify_all()


class LeadingBatchQueue(BatchQueue[Batch]):
    """Batch queue of rank 0 among several, which sends each batch to the other ranks."""

    ranks: Ranks = ALONE  # until they have joined

    def get(self) -> Batch:
        batch = super().get()
        self.ranks.send(Command.UPDATE, batch)
        return batch

    def raise_if_interrupted(self) -> None:
        if self.ranks.any(self._interrupting):
            raise Interrupted(INTERRUPTED)
