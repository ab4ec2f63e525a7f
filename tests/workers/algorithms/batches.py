"""Random micro-batches of logprobs with rows of different lengths, some empty, covering every
ratio that a loss treats differently.
"""

import torch

from workers.algorithms.tokens import Tokens


def batch(
    seed: int = 0,
    rows: int = 6,
    width: int = 7,
    dtype: torch.dtype = torch.float64,
    empty: bool = True,
) -> Tokens:
    """Return rows of 1 to `width` loss tokens with gaps; with `empty`, row 2 has none.

    Ratios lie between about 1/6 and 6.
    """
    draw = torch.Generator().manual_seed(seed)

    def normal() -> torch.Tensor:
        return torch.randn(rows, width, generator=draw, dtype=torch.float64)

    behaviour = -normal().abs() - 0.05
    mask = (torch.rand(rows, width, generator=draw) < 0.75).to(torch.float64)
    mask[:, 0] = 1
    if empty and rows > 2:
        mask[2] = 0
    tensors = {
        "policy": (behaviour + 0.6 * normal()).clamp(max=-1e-3),
        "behaviour": behaviour,
        "mask": mask,
        "advantages": normal(),
        "reference": (behaviour + 0.5 * normal()).clamp(max=-1e-3),
        "proximal": (behaviour + 0.3 * normal()).clamp(max=-1e-3),
        "entropy": normal().abs(),
    }
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    tensors["policy"].requires_grad_()
    return Tokens(**tensors, is_expert=torch.arange(rows) % 3 == 1)


def split(tokens: Tokens, size: int, policy: torch.Tensor) -> list[Tokens]:
    """Return the micro-batches of `size` rows of an update, with `policy` (B, C) in place of the
    tokens' own.
    """
    parts = {
        name: value.split(size)
        for name, value in vars(tokens).items()
        if name != "policy" and value is not None
    }
    return [
        Tokens(policy=own, **{name: part[place] for name, part in parts.items()})
        for place, own in enumerate(policy.split(size))
    ]
