"""Checkpoints of a trainer that rests, and the memory that a trainer takes.

The library itself writes checkpoints only at the end of an update.

Names relied on in transformers 5.19: `Trainer._save_checkpoint(model, trial)`,
`Trainer.callback_handler.on_save`.
"""

import math
from pathlib import Path

import torch
from transformers import Trainer

from apps.policies.manifest import read_manifest

FLOAT32 = 4
TRAINED = 4  # weights, gradients and both moments of Adam, in the size of the weights


def write_checkpoint(trainer: Trainer) -> None:
    """Of its last complete update; one that was interrupted has changed no weight."""
    trainer._save_checkpoint(trainer.model, None)
    trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)


def held_bytes(trainer: Trainer) -> int:
    """Weights, gradients, both moments of the optimizer, and the reference's own weights."""
    model, reference = trainer.model, trainer.reference
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    beside = list(reference.lent.values()) if reference else []
    return (
        _bytes([*model.parameters(), *model.buffers()])
        + (TRAINED - 1) * _bytes(learned)
        + _bytes(beside)
    )


def expected_bytes(policy: Path, has_adapters: bool) -> int:
    """What a trainer of this policy will take, with a reference that copies the weights."""
    shapes = [tensor.shape for tensor in read_manifest(policy).tensors.values()]
    weights = FLOAT32 * sum(math.prod(shape) for shape in shapes)
    return weights * (1 if has_adapters else TRAINED + 1)


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
