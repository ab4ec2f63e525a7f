"""Check of a loss: called as the trainer calls it, on random tokens."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from apps.plugins.kinds import LOSS
from apps.plugins.registry import REGISTRY
from rftweb.testing.failures import find_plugin, open_plugin, require_none


def check_loss(plugin: Path | str, options: Mapping[str, Any] | None = None) -> Any:
    """Return the loss of random tokens, a tensor (4, 6).

    Raises PluginFailed unless it is finite, has a finite gradient by `tokens.policy`, and does not
    read tokens where the mask is 0.
    """
    from workers.trainer.loss_trial import try_loss  # imports torch

    with open_plugin(plugin) as name:
        find_plugin(partial(REGISTRY.find, LOSS), name)
        values, problems = try_loss(name, dict(options or {}))
    require_none(name, problems)
    return values
