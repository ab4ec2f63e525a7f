"""The gradient of an update, recorded just before the optimizer step."""

import torch
from transformers import TrainerCallback

from workers.trainer.host import TrainerHost


class Spy(TrainerCallback):
    """Records the gradient of the last update."""

    def __init__(self, host: TrainerHost) -> None:
        self.host = host
        self.gradient = {}

    def on_pre_optimizer_step(self, *args: object, **kwargs: object) -> None:
        self.gradient = {
            n: p.grad.clone()
            for n, p in self.host.trainer.model.named_parameters()
            if p.grad is not None
        }

    @property
    def flat(self) -> torch.Tensor:
        return torch.cat([gradient.flatten() for gradient in self.gradient.values()])


def spied(host: TrainerHost) -> Spy:
    spy = Spy(host)
    host.trainer.add_callback(spy)
    return spy
