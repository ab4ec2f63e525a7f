"""Aggregate token losses to one number, as a share of the whole step.

| mode | the step's loss |
|---|---|
| token-mean | Σ over all tokens / tokens (DAPO, arXiv 2503.14476: a long answer weighs more) |
| seq-mean-token-mean | mean over rows of the row's token mean (GRPO, arXiv 2402.03300: every answer
weighs the same) |
| seq-mean-token-sum | mean over rows of the row's token sum (the logprob of a whole answer) |
| seq-mean-token-sum-norm | the same, divided by the most tokens an answer may have (Dr. GRPO, arXiv
2503.20783) |

BNPO is token-mean over the micro-batch that a row happens to be in. Over the whole step, BNPO and
token-mean are the same.
"""

import torch

from workers.algorithms.masking import row_mean, zeroed
from workers.algorithms.tokens import Window

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


def aggregate(values: torch.Tensor, mask: torch.Tensor, mode: str, window: Window) -> torch.Tensor:
    """Return the micro-batch's share of the step's loss, 0-dim.

    `values` and `mask` are (B, C). `window` holds totals of the whole step, so that shares, and
    their gradients, add up to the same for any micro-batch size. An empty window gives exactly
    zero. Raises ValueError for an unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"unknown aggregation {mode!r}; use one of {', '.join(MODES)}")
    if mode == "seq-mean-token-mean":
        return row_mean(values, mask).sum() / max(window.rows, 1)
    divisor = {
        "token-mean": window.tokens,
        "seq-mean-token-sum": window.rows,
        "seq-mean-token-sum-norm": window.rows * window.width,
    }[mode]
    return zeroed(values, mask).sum() / max(divisor, 1)
