"""Dropout and other noise of a forward pass in training, which trainers here switch off.

A reply is sampled without noise, and the reference model computes without it. With noise in the
policy's own pass, its ratio to the sampling weights would be random instead of 1, and so would be
the margin of a pair. TRL's trainers for preferences switch it off too.
"""

import torch
from torch.nn.modules.dropout import _DropoutNd

# Parts of the names by which model classes keep such rates: `attention_dropout`, `layerdrop`,
# `router_jitter_noise`.
NOISES = ("drop", "jitter")


def disable_dropout(model: torch.nn.Module) -> None:
    """Set all rates of dropout in the model to 0."""
    for module in model.modules():
        for name in _rates(module):
            setattr(module, name, 0.0)


def has_dropout(model: torch.nn.Module) -> bool:
    """Tell whether the model's pass in training mode is random."""
    return any(_rates(module) for module in model.modules())


def _rates(module: torch.nn.Module) -> list[str]:
    """Return the names of the module's own rates that are above 0."""
    names = [name for name in vars(module) if any(noise in name for noise in NOISES)]
    if isinstance(module, _DropoutNd):
        names.append("p")
    values = vars(module)
    return [name for name in names if isinstance(values[name], float) and values[name] > 0]
