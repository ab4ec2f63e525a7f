"""Call the losses of plugins, and check their result in each micro-batch."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import apps.runs.plugin_kinds  # noqa: F401  (registers the kind)
from apps.plugins.kinds import LOSS
from apps.plugins.registry import REGISTRY, SETTING
from workers.algorithms.tokens import TokenLoss, Tokens


class LossFailed(RuntimeError):
    """Raised for a plugin's loss that is missing, raises, or returns a wrong result."""


def loss_by_plugin(plugin: str, options: Mapping[str, Any]) -> Callable[[Tokens], TokenLoss]:
    """Return the loss function of a plugin. Raises LossFailed.

    The plugin's `loss(tokens, options)` returns a tensor (B, C) of values to minimise, or a
    TokenLoss.
    """
    _find_folder()
    try:
        part = REGISTRY.find(LOSS, plugin)
        chosen = part.read_options(options)
    except (LookupError, ValueError) as refused:
        raise LossFailed(f"the loss {plugin}: {refused}") from None

    def loss(tokens: Tokens) -> TokenLoss:
        try:
            result = part.call(tokens, chosen)
        except Exception as error:  # any error of the plugin
            raise LossFailed(f"the loss {plugin}: {type(error).__name__}: {error}") from error
        return _check_loss(plugin, result, tokens)

    return loss


def _find_folder() -> None:
    """Find this machine's plugins folder: the ranks of a trainer have no Django settings."""
    if REGISTRY.folder is None and (folder := os.environ.get(SETTING)):
        REGISTRY.use(Path(folder).resolve())


def _check_loss(plugin: str, returned: Any, tokens: Tokens) -> TokenLoss:
    result = returned if isinstance(returned, TokenLoss) else TokenLoss(returned)
    values = result.values
    if not isinstance(values, torch.Tensor) or values.shape != tokens.mask.shape:
        shape = tuple(getattr(values, "shape", ())) or type(values).__name__
        expected = tuple(tokens.mask.shape)
        raise LossFailed(f"the loss {plugin} returned {shape} instead of a tensor {expected}")
    if not values.requires_grad and tokens.policy.requires_grad:
        raise LossFailed(f"the loss {plugin} does not depend on tokens.policy")
    zero = torch.zeros((), dtype=values.dtype, device=values.device)
    return TokenLoss(torch.where(tokens.mask != 0, values, zero), result.metrics)
