"""What an update did, in numbers; gathered in the training thread while it happens."""

import math
from collections import defaultdict
from dataclasses import dataclass, field

import torch

SKIPS_IN_A_ROW = 3
# TRL's and the trainer's names of figures → ours.
LOGGED = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "kl": "kl",
    "step_time": "update_seconds",
}


@dataclass(frozen=True)
class StepReport:
    """One update. `metrics` are finite; `skipped` says why the weights were left as they were, or is empty.

    `blocked` is not empty when so many updates in a row were skipped that going on makes no sense.
    """

    step: int
    metrics: dict[str, float]
    skipped: str = ""
    blocked: str = ""


@dataclass(frozen=True)
class Seen:
    """What one forward pass saw: logprobs and entropy (nats) and mask (1: in the loss), (B, C); advantages (B,)."""

    policy: torch.Tensor
    behaviour: torch.Tensor
    entropy: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor


@dataclass
class Recorder:
    """Sums over the tokens of the update in progress, whatever its micro-batches, and the count of skipped updates."""

    epsilon_low: float
    epsilon_high: float
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    logged: dict[str, float] = field(default_factory=dict)
    skipped: str = ""
    skips_in_a_row: int = 0

    def observe(self, seen: Seen) -> None:
        """Add a micro-batch, as it was before the update changed anything.

        behaviour_kl is KL(behaviour ‖ policy) by the k3 estimator (Schulman 2020): r − 1 − log r, r = policy/behaviour.
        """
        log_ratio = torch.where(seen.mask.bool(), seen.policy - seen.behaviour, 0.0).double()
        ratio, up = log_ratio.exp(), seen.advantages[:, None] > 0
        clipped = torch.where(up, ratio > 1 + self.epsilon_high, (ratio < 1 - self.epsilon_low) & (seen.advantages[:, None] < 0))
        per_token = {
            "tokens": torch.ones_like(ratio),
            "behaviour_gap": log_ratio.abs(),
            "behaviour_kl": ratio - 1 - log_ratio,
            "entropy": seen.entropy,
            "clip_share": clipped,
        }
        for name, values in per_token.items():
            self.sums[name] += float((values * seen.mask).sum())

    def skip(self, reason: str) -> None:
        self.skipped = reason

    def log(self, logs: dict[str, float | None]) -> None:
        """Keep what the trainer logged for this update."""
        self.logged.update({LOGGED[name]: value for name, value in logs.items() if name in LOGGED and value is not None})

    def finish(self, step: int) -> StepReport:
        """The report of the update that just ended; the next one starts from nothing."""
        tokens = self.sums.pop("tokens", 0.0)
        figures = {"tokens": tokens, **self.logged, **{name: total / max(tokens, 1.0) for name, total in self.sums.items()}}
        self.skips_in_a_row = self.skips_in_a_row + 1 if self.skipped else 0
        stuck = self.skips_in_a_row >= SKIPS_IN_A_ROW
        blocked = f"{self.skips_in_a_row} updates in a row were skipped: {self.skipped}" if stuck else ""
        finite = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
        report = StepReport(step, finite, self.skipped, blocked)
        self.sums.clear()
        self.logged, self.skipped = {}, ""
        return report
