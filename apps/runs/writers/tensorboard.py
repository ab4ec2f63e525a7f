"""TensorBoard event files, written without TensorFlow.

There is one record for each step, so that a step is there whole or not at all.
"""

from pathlib import Path
from typing import Any

from apps.runs.models import Run
from apps.runs.writers.contract import NoTarget, Step, package


class TensorBoard:
    """TensorBoard target: a folder for each run below `root`.

    What was written is read back from the files: there is no other memory of it.
    """

    def __init__(self, run: Run, root: Path) -> None:
        self.files = package("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self.events = package("tensorboard.compat.proto.event_pb2", "tensorboard")
        self.summaries = package("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self.reading = package(
            "tensorboard.backend.event_processing.event_file_loader", "tensorboard"
        )
        self.folder = root / f"{run.project.slug}-{run.slug}"
        self.writer: Any = None  # tensorboard's EventFileWriter, which has no types

    def last_step(self) -> int:
        """Return the last step in the newest file that has one; steps rise from file to file.

        A torn last record is ignored.
        """
        for path in sorted(self.folder.glob("events.out.tfevents.*"), reverse=True):
            steps = (
                self.events.Event.FromString(record).step
                for record in self.reading.RawEventFileLoader(str(path)).Load()
            )
            if last := max(steps, default=0):
                return last
        return 0

    def write(self, steps: list[Step]) -> None:
        if self.writer is None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise NoTarget(f"--folder: {error}") from None
            self.writer = self.files.EventFileWriter(str(self.folder))
        for step in steps:
            values = [
                self.summaries.Summary.Value(tag=name, simple_value=value)
                for name, value in step.metrics.items()
            ]
            event = self.events.Event(wall_time=step.at.timestamp(), step=step.number)
            event.summary.CopyFrom(self.summaries.Summary(value=values))
            self.writer.add_event(event)
        self.writer.flush()

    def close(self, is_over: bool) -> None:
        if self.writer:
            self.writer.close()
