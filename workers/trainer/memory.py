"""Measure and estimate the memory of a trainer."""

import math
from collections.abc import Iterable
from pathlib import Path

import torch

from apps.policies.manifest import read_manifest
from workers.trainer.optimizers import MOMENT_BYTES
from workers.trainer.reference import Reference

FLOAT32 = 4


def held_bytes(model: torch.nn.Module, reference: Reference | None, optimizer: str) -> int:
    """Return the bytes of weights, gradients, both moments of the optimizer, and the reference."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    beside = list(reference.lent.values()) if reference else []
    numbers = sum(parameter.numel() for parameter in learned)
    return (
        _bytes([*model.parameters(), *model.buffers()])
        + _bytes(learned)
        + MOMENT_BYTES[optimizer] * numbers
        + _bytes(beside)
    )


def estimate_trainer_bytes(policy: Path, has_adapters: bool, optimizer: str) -> int:
    """Estimate the bytes that a trainer of this policy needs.

    The reference model is assumed to copy the weights.
    """
    shapes = [tensor.shape for tensor in read_manifest(policy).tensors.values()]
    numbers = sum(math.prod(shape) for shape in shapes)
    if has_adapters:
        return FLOAT32 * numbers
    # Weights, their gradients, the reference.
    return (3 * FLOAT32 + MOMENT_BYTES[optimizer]) * numbers


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
