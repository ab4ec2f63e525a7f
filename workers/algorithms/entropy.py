"""Entropy bonus, which rewards a policy for staying undecided."""

import torch

from workers.algorithms.masking import zeroed
from workers.algorithms.tokens import Tokens, Window


def entropy_bonus(tokens: Tokens, coefficient: float, window: Window) -> torch.Tensor:
    """Return coefficient · mean entropy of usual rows in nats: the micro-batch's share, 0-dim.

    Subtract it from the loss. `window` counts usual rows only, because the policy need not stay
    undecided about an expert's tokens. Raises ValueError without `tokens.entropy`.
    """
    if tokens.entropy is None:
        raise ValueError(
            "the entropy bonus needs the entropy of the policy's next-token distributions"
        )
    mask = tokens.mask if tokens.is_expert is None else tokens.only(~tokens.is_expert.bool()).mask
    return coefficient * zeroed(tokens.entropy, mask).sum() / max(window.tokens, 1)
