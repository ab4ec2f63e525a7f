"""Masked sums and means: values outside the mask, NaN included, have no effect."""

import torch


def zeroed(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return `values` where the mask is not 0, and zero elsewhere; both are (B, C).

    A product with the mask would keep a NaN.
    """
    return torch.where(mask != 0, values, torch.zeros((), dtype=values.dtype, device=values.device))


def row_sum(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the sum over each row's loss tokens, (B, 1)."""
    return zeroed(values, mask).sum(1, keepdim=True)


def row_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean over each row's loss tokens, (B, 1); 0 for a row without any."""
    return row_sum(values, mask) / (mask != 0).sum(1, keepdim=True).clamp(min=1)
