"""What an update did, in numbers; gathered in the training thread while it happens."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

SKIPS_IN_A_ROW = 3
# Said of an update whose scaled gradients overflowed float16. The scale is halved until they fit,
# so that some of these in a row are nothing to pause a run for.
OVERFLOW = "float16 overflowed; the scale of the loss was halved"
# The trainer library's names of figures → ours.
LOGGED = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "step_time": "update_seconds",
}


@dataclass(frozen=True)
class StepReport:
    """One update. `metrics` are finite; `skipped` says why the weights were left as they were, or is empty.

    `blocked` is not empty when so many updates in a row were skipped that going on makes no sense. `checkpoint`: whether
    one was written after it.
    """

    step: int
    metrics: dict[str, float]
    skipped: str = ""
    blocked: str = ""
    checkpoint: bool = False


@dataclass
class Recorder:
    """Means over the tokens of the update in progress, whatever its micro-batches, and the count of skipped updates.

    Sums stay where they were computed until the update is over: reading a number makes a GPU stand still.
    """

    sums: dict[str, torch.Tensor] = field(default_factory=dict)
    counts: dict[str, torch.Tensor] = field(default_factory=dict)
    kept: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    skipped: str = ""
    skips_in_a_row: int = 0

    def observe(self, figures: Mapping[str, torch.Tensor], mask: torch.Tensor) -> None:
        """Add a micro-batch's values, each (B, C) or (B, 1), over the tokens where `mask` (B, C) is not 0."""
        kept = mask != 0
        for name, values in figures.items():
            seen = torch.where(kept, values.detach(), 0.0).sum(dtype=torch.float64)
            self.sums[name] = self.sums.get(name, 0.0) + seen
            self.counts[name] = self.counts.get(name, 0) + kept.sum()

    def keep(self, name: str, values: torch.Tensor, mask: torch.Tensor) -> None:
        """Keep a micro-batch's values (B, C) where `mask` is not 0, for the figure `<name>_p99` of the update."""
        self.kept.setdefault(name, []).append(values.detach()[mask != 0].float().cpu())

    def mean(self, name: str) -> float | None:
        """The mean over the update so far; None where nothing was seen."""
        if name not in self.sums or not int(self.counts[name]):
            return None
        return float(self.sums[name]) / int(self.counts[name])

    def tell(self, **figures: float) -> None:
        """Keep figures of the update as a whole."""
        self.told.update(figures)

    def skip(self, reason: str) -> None:
        self.skipped = reason

    def log(self, logs: Mapping[str, float | None]) -> None:
        """Keep what the trainer library logged for this update."""
        self.told.update({LOGGED[name]: value for name, value in logs.items() if name in LOGGED and value is not None})

    def finish(self, step: int) -> StepReport:
        """The report of the update that just ended; the next one starts from nothing."""
        highest = {f"{name}_p99": self._p99(name) for name in self.kept}
        self.told |= {name: value for name, value in highest.items() if value is not None}
        means = {name: mean for name in self.sums if (mean := self.mean(name)) is not None}
        if self.skipped != OVERFLOW:
            self.skips_in_a_row = self.skips_in_a_row + 1 if self.skipped else 0
        stuck = self.skips_in_a_row >= SKIPS_IN_A_ROW
        blocked = f"{self.skips_in_a_row} updates in a row were skipped: {self.skipped}" if stuck else ""
        finite = {name: float(value) for name, value in {**means, **self.told}.items() if math.isfinite(value)}
        report = StepReport(step, finite, self.skipped, blocked)
        self.sums, self.counts, self.told, self.skipped = {}, {}, {}, ""
        self.kept = {}
        return report

    def _p99(self, name: str) -> float | None:
        """The value that 99 of 100 tokens do not exceed; None where there are none."""
        values = torch.cat(self.kept[name])
        if not len(values):
            return None
        return float(values.sort().values[math.ceil(0.99 * len(values)) - 1])
