"""Resource usage of the runs at an explorer: GPU and CPU seconds, shared by the active runs."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import torch

from apps.runs.costs import CPU, GPU
from apps.runs.models import Usage


class UsageMeter:
    """Sums by run, kind and hour since the process began.

    They are written as totals, so writing them twice changes nothing. A process that dies loses up
    to two seconds that were not written.
    """

    def __init__(
        self,
        worker: str,
        on_gpu: bool | None = None,
        wall: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.worker = worker
        self.wall = wall
        self.processor = processor
        self.clock = clock
        self.hour = datetime.min.replace(tzinfo=UTC)  # never goes back: past hours are dropped
        self.on_gpu = torch.cuda.is_available() if on_gpu is None else on_gpu
        self.at = wall(), processor()
        self.sums: dict[int, dict[tuple[str, datetime], float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self.unsaved: set[int] = set()

    def record(self, busy: Mapping[int, bool]) -> None:
        """Divide the time since the last call equally among these runs.

        GPU time is divided among those whose engine is at work.
        """
        before = self.at
        self.at = (self.wall(), self.processor())
        wall, processor = (now - then for now, then in zip(self.at, before, strict=True))
        at_work = [run for run, awaits in busy.items() if awaits]
        self._add(list(busy), f"explorer.{CPU}", processor)
        if self.on_gpu:
            self._add(at_work, f"explorer.{GPU}", wall)

    def _add(self, runs: list[int], kind: str, seconds: float) -> None:
        hour = self.clock().replace(minute=0, second=0, microsecond=0)
        self.hour = max(self.hour, hour)
        for run in runs:
            self.sums[run][kind, self.hour] += seconds / len(runs)
            self.unsaved.add(run)

    def save(self) -> None:
        """Write the changed sums. Sums of past hours are written once more and then dropped."""
        for run in list(self.unsaved):
            sums = self.sums[run]
            Usage.put(run, self.worker, sums)
            self.unsaved.discard(run)
            newest = max(hour for _, hour in sums)
            self.sums[run] = defaultdict(
                float, {place: value for place, value in sums.items() if place[1] == newest}
            )
