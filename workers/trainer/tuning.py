"""Knobs that may be turned between two updates, where the trainer libraries would build them in once and for all.

Names relied on, torch 2: `LambdaLR.base_lrs`, `.lr_lambdas`, `.last_epoch`, `._last_lr` (what is logged).
"""

from dataclasses import dataclass
from typing import Any

from torch.optim.lr_scheduler import LambdaLR

from workers.algorithms.kl import adapted
from workers.trainer.spec import Knobs


def set_learning_rate(schedule: LambdaLR, optimizer: Any, rate: float) -> None:
    """Make the next update with `rate`, times what the warm-up allows by now; moments and step counts stay."""
    if set(schedule.base_lrs) == {rate}:
        return
    schedule.base_lrs = [rate] * len(schedule.base_lrs)
    for group, factor in zip(optimizer.param_groups, schedule.lr_lambdas, strict=True):
        group["initial_lr"] = rate
        group["lr"] = rate * factor(schedule.last_epoch)
    schedule._last_lr = [group["lr"] for group in optimizer.param_groups]


@dataclass
class Coefficient:
    """The weight of the KL. `asked`: the knob that it was set to last; None where an older checkpoint does not say."""

    value: float
    asked: float | None = None

    @classmethod
    def of(cls, knobs: Knobs) -> "Coefficient":
        return cls(knobs.kl_coefficient, knobs.kl_coefficient)

    @classmethod
    def restored(cls, state: dict[str, float]) -> "Coefficient":
        """Raises KeyError when a checkpoint does not hold it."""
        return cls(state["kl_coefficient"], state.get("kl_asked"))

    @property
    def state(self) -> dict[str, float | None]:
        """What a checkpoint keeps."""
        return {"kl_coefficient": self.value, "kl_asked": self.asked}

    def take_up(self, knobs: Knobs) -> None:
        """Without a target it is the knob; with one it begins there, and again wherever somebody turns the knob."""
        is_turned = self.asked is not None and self.asked != knobs.kl_coefficient
        if knobs.kl_target is None or is_turned:
            self.value = knobs.kl_coefficient
        self.asked = knobs.kl_coefficient

    def follow(self, knobs: Knobs, measured: float | None, rows: int) -> None:
        """After an update over `rows` rows: where there is a target, move towards what would reach it."""
        if knobs.kl_target is not None and measured is not None:
            self.value = adapted(self.value, measured, rows=rows, target=knobs.kl_target, horizon=knobs.kl_horizon)
