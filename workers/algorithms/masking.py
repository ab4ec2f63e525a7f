"""Masked sums and means: values outside the mask, NaN included, have no effect."""

import torch


def zeroed(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return `values` where the mask is not 0, zero elsewhere; both (B, C).

    A product with the mask would keep a NaN.
    """
    return torch.where(mask != 0, values, torch.zeros((), dtype=values.dtype, device=values.device))


def row_sum(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return (B, 1) sum over each row's loss tokens."""
    return zeroed(values, mask).sum(1, keepdim=True)


def row_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return (B, 1) mean over each row's loss tokens; 0 for a row without any."""
    return row_sum(values, mask) / (mask != 0).sum(1, keepdim=True).clamp(min=1)
