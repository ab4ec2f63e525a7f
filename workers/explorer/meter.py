"""What the runs of an explorer use of it: seconds of the GPU and of the processor, shared by those with something in flight."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import torch

from apps.runs.costs import CPU, GPU
from apps.runs.models import Usage


class Meter:
    """Sums by run, kind and hour since the process began. They are put as they are: told twice, they are the same.

    What was not put when the process dies is lost: two seconds of it.
    """

    def __init__(
        self, worker: str, on_gpu: bool | None = None, wall: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
    ) -> None:  # fmt: skip
        self.worker, self.wall, self.processor = worker, wall, processor
        self.on_gpu = torch.cuda.is_available() if on_gpu is None else on_gpu
        self.at = wall(), processor()
        self.sums: dict[int, dict[tuple[str, datetime], float]] = defaultdict(lambda: defaultdict(float))
        self.unsaid: set[int] = set()

    def turn(self, busy: Mapping[int, bool]) -> None:
        """What passed since the last turn is of these runs, to equal parts; of the GPU, of those whose engine is at work."""
        before, self.at = self.at, (self.wall(), self.processor())
        wall, processor = (now - then for now, then in zip(self.at, before, strict=True))
        at_work = [run for run, awaits in busy.items() if awaits]
        self._add(list(busy), f"explorer.{CPU}", processor)
        if self.on_gpu:
            self._add(at_work, f"explorer.{GPU}", wall)

    def _add(self, runs: list[int], kind: str, seconds: float) -> None:
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        for run in runs:
            self.sums[run][kind, hour] += seconds / len(runs)
            self.unsaid.add(run)

    def put(self) -> None:
        """Write what has changed. Hours that are over are said once more, and then forgotten."""
        for run in list(self.unsaid):
            sums = self.sums[run]
            Usage.put(run, self.worker, sums)
            self.unsaid.discard(run)
            newest = max(hour for _, hour in sums)
            self.sums[run] = defaultdict(float, {place: value for place, value in sums.items() if place[1] == newest})
