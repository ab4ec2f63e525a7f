"""Gather the metrics of one step in the training thread while the step runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import torch

SKIPS_IN_A_ROW = 3
# Reason to skip a step whose scaled gradients overflowed float16. The scale is halved until they
# fit, so several of these in a row are no reason to pause a run.
OVERFLOW = "float16 overflowed; the scale of the loss was halved"
# The trainer library's names of metrics → our names.
LOGGED = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "step_time": "update_seconds",
}


@dataclass(frozen=True)
class StepReport:
    """Report of one step.

    `metrics` are finite numbers. `skipped` says why the weights were left unchanged; it is empty
    for a normal step. `blocked` is not empty if so many steps in a row were skipped that the
    run should stop. `checkpoint` tells whether a checkpoint was written after the step.
    """

    step: int
    metrics: dict[str, float]
    skipped: str = ""
    blocked: str = ""
    checkpoint: bool = False


class Parts(TypedDict):
    """Measurements of one process in one step, by the metric's name."""

    sums: dict[str, float]
    counts: dict[str, int]
    kept: dict[str, torch.Tensor]


@dataclass
class Recorder:
    """Means over the tokens of the current step, and the number of skipped steps.

    Sums stay on the device where they were computed until the step ends, because reading a number
    makes a GPU wait.
    """

    sums: dict[str, torch.Tensor] = field(default_factory=dict)
    counts: dict[str, torch.Tensor] = field(default_factory=dict)
    kept: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    skipped: str = ""
    skips_in_a_row: int = 0

    def observe(self, metrics: Mapping[str, torch.Tensor], mask: torch.Tensor) -> None:
        """Add the values of a micro-batch, each (B, C) or (B, 1), where `mask` (B, C) is not 0."""
        is_counted = mask != 0
        for name, values in metrics.items():
            total = torch.where(is_counted, values.detach(), 0.0).sum(dtype=torch.float64)
            self.sums[name] = self.sums.get(name, 0.0) + total
            self.counts[name] = self.counts.get(name, 0) + is_counted.sum()

    def keep(self, name: str, values: torch.Tensor, mask: torch.Tensor) -> None:
        """Store a micro-batch's values (B, C) where `mask` is not 0, for `<name>_p99`."""
        self.kept.setdefault(name, []).append(values.detach()[mask != 0].float().cpu())

    @property
    def parts(self) -> Parts:
        """Return the sums, counts and values of this process, to send to the other ranks."""
        return {
            "sums": {name: float(value) for name, value in self.sums.items()},
            "counts": {name: int(value) for name, value in self.counts.items()},
            "kept": {name: torch.cat(values) for name, values in self.kept.items()},
        }

    def add_up(self, parts: Sequence[Parts]) -> None:
        """Collect the measurements of all processes in rank order, this one included."""
        names = list(dict.fromkeys(name for part in parts for name in part["sums"]))
        self.sums = {
            name: torch.tensor(
                sum(part["sums"].get(name, 0) for part in parts), dtype=torch.float64
            )
            for name in names
        }
        self.counts = {
            name: torch.tensor(sum(part["counts"].get(name, 0) for part in parts)) for name in names
        }
        kept_names = list(dict.fromkeys(name for part in parts for name in part["kept"]))
        self.kept = {
            name: [part["kept"][name] for part in parts if name in part["kept"]]
            for name in kept_names
        }

    def mean(self, name: str) -> float | None:
        """Return the mean over the step so far; None if nothing was observed."""
        if name not in self.sums or not int(self.counts[name]):
            return None
        return float(self.sums[name]) / int(self.counts[name])

    def tell(self, **metrics: float) -> None:
        """Store metrics of the step as a whole."""
        self.metrics.update(metrics)

    def skip(self, reason: str) -> None:
        self.skipped = reason

    def log(self, logs: Mapping[str, float | None]) -> None:
        """Store what the trainer library logged for this step."""
        self.metrics.update(
            {
                LOGGED[name]: value
                for name, value in logs.items()
                if name in LOGGED and value is not None
            }
        )

    def finish(self, step: int) -> StepReport:
        """Return the report of the step that just ended, and start the next one from zero."""
        highest = {f"{name}_p99": self._p99(name) for name in self.kept}
        self.metrics |= {name: value for name, value in highest.items() if value is not None}
        means = {name: mean for name in self.sums if (mean := self.mean(name)) is not None}
        if self.skipped != OVERFLOW:
            self.skips_in_a_row = self.skips_in_a_row + 1 if self.skipped else 0
        stuck = self.skips_in_a_row >= SKIPS_IN_A_ROW
        blocked = (
            f"{self.skips_in_a_row} consecutive steps were skipped: {self.skipped}" if stuck else ""
        )
        finite = {
            name: float(value)
            for name, value in {**means, **self.metrics}.items()
            if math.isfinite(value)
        }
        report = StepReport(step, finite, self.skipped, blocked)
        self.sums = {}
        self.counts = {}
        self.metrics = {}
        self.skipped = ""
        self.kept = {}
        return report

    def _p99(self, name: str) -> float | None:
        """Return the value that 99 of 100 tokens do not exceed; None if there are no tokens."""
        values = torch.cat(self.kept[name])
        if not len(values):
            return None
        return float(values.sort().values[math.ceil(0.99 * len(values)) - 1])
