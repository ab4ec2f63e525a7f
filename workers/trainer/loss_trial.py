"""Try a plugin's loss on random tokens, for the test kit of plugins."""

from collections.abc import Mapping
from typing import Any

import torch

from workers.algorithms.tokens import Tokens
from workers.trainer.plugin_losses import LossFailed, loss_by_plugin

ROWS = 4
COLUMNS = 6


def try_loss(plugin: str, options: Mapping[str, Any]) -> tuple[torch.Tensor | None, list[str]]:
    """Return the plugin's loss of random tokens, (4, 6), and a list of its problems.

    The loss must be finite, with a finite gradient by `tokens.policy`, and must not depend on
    tokens where the mask is 0.
    """
    try:
        loss = loss_by_plugin(plugin, options)
        tokens = random_tokens()
        values = loss(tokens).values
        (gradient,) = torch.autograd.grad(values.sum(), tokens.policy)
        unread = loss(random_tokens(masked=float("nan"))).values
    except LossFailed as failure:
        return None, [str(failure)]
    problems = []
    if not values.isfinite().all() or not gradient.isfinite().all():
        problems.append("is not finite, or its gradient is not")
    if not torch.equal(unread.detach(), values.detach()):
        problems.append("reads tokens where the mask is 0")
    return values.detach(), problems


def random_tokens(masked: float = 0.0) -> Tokens:
    """Return the same random tokens at each call, with `masked` where the mask is 0."""
    chance = torch.Generator().manual_seed(1)
    shape = (ROWS, COLUMNS)
    mask = torch.ones(shape)
    mask[:, -1] = 0

    def drawn(low: float, high: float) -> torch.Tensor:
        values = torch.rand(shape, generator=chance) * (high - low) + low
        return torch.where(mask != 0, values, torch.full(shape, masked))

    return Tokens(
        policy=drawn(-3, -0.1).requires_grad_(),
        behaviour=drawn(-3, -0.1),
        mask=mask,
        advantages=drawn(-1, 1),
        reference=drawn(-3, -0.1),
        proximal=drawn(-3, -0.1),
        entropy=drawn(0, 2),
        is_expert=torch.zeros(ROWS, dtype=torch.bool),
    )
