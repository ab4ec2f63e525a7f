"""Change settings between two steps that the trainer libraries fix at the start.

Names used from torch 2: `LambdaLR.base_lrs`, `.lr_lambdas`, `.last_epoch`, and `._last_lr` (which
is logged).
"""

from dataclasses import dataclass
from typing import Any

from torch.optim.lr_scheduler import LambdaLR

from workers.algorithms.kl import adapted
from workers.trainer.spec import Knobs


def set_learning_rate(schedule: LambdaLR, optimizer: Any, rate: float) -> None:
    """Set the learning rate of the next step, before the schedule scales it.

    The optimizer's moments and step counts stay.
    """
    if set(schedule.base_lrs) == {rate}:
        return
    schedule.base_lrs = [rate] * len(schedule.base_lrs)
    for group, factor in zip(optimizer.param_groups, schedule.lr_lambdas, strict=True):
        group["initial_lr"] = rate
        group["lr"] = rate * factor(schedule.last_epoch)
    schedule._last_lr = [group["lr"] for group in optimizer.param_groups]


@dataclass
class Coefficient:
    """Coefficient of the KL penalty.

    `configured`: the last value of the knob; None if an older checkpoint does not have it.
    """

    value: float
    configured: float | None = None

    @classmethod
    def of(cls, knobs: Knobs) -> "Coefficient":
        return cls(knobs.kl_coefficient, knobs.kl_coefficient)

    @classmethod
    def restored(cls, state: dict[str, float]) -> "Coefficient":
        """Restore the coefficient from a checkpoint's state.

        Raises KeyError if it is missing there.
        """
        return cls(state["kl_coefficient"], state.get("kl_configured"))

    @property
    def state(self) -> dict[str, float | None]:
        """Return the state that a checkpoint keeps."""
        return {"kl_coefficient": self.value, "kl_configured": self.configured}

    def take_up(self, knobs: Knobs) -> None:
        """Apply the knobs of this step to the coefficient.

        With a KL target, the knob is only the starting value; the coefficient starts there again
        whenever the knob is changed.
        """
        is_turned = self.configured is not None and self.configured != knobs.kl_coefficient
        if knobs.kl_target is None or is_turned:
            self.value = knobs.kl_coefficient
        self.configured = knobs.kl_coefficient

    def follow(self, knobs: Knobs, measured: float | None, rows: int) -> None:
        """Move the coefficient towards the KL target, if there is one, after a step.

        `rows` is the number of rows of the step.
        """
        if knobs.kl_target is not None and measured is not None:
            self.value = adapted(
                self.value, measured, rows=rows, target=knobs.kl_target, horizon=knobs.kl_horizon
            )
