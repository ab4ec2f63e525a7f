"""Advantages that plugins compute, checked before they are used."""

import math
from collections.abc import Sequence
from typing import Any

from apps.accounts.public_text import public_text
from apps.pipelines.applying import OperatorFailed
from apps.plugins.kinds import ADVANTAGE
from apps.plugins.registry import REGISTRY
from apps.runs.algorithms.advantages import PluginAdvantage


def advantages_by_plugin(
    advantage: PluginAdvantage, rewards: Sequence[float]
) -> list[float] | None:
    """Return a number for each of a group's rewards; None if nothing can be learned from them.

    Calls the plugin's `advantages(rewards, options)`. Raises OperatorFailed with its error, or with
    what is wrong with its result: the group waits, and the run goes on.
    """
    try:
        plugin = REGISTRY.find(ADVANTAGE, advantage.plugin)
        advantages = plugin.call(list(rewards), plugin.read_options(advantage.options))
    except LookupError as missing:
        raise OperatorFailed(str(missing)) from None
    except Exception as error:  # others' code
        what = f"{advantage.plugin}: {type(error).__name__}: {public_text(error)}"
        raise OperatorFailed(what) from error
    if advantages is not None and (problem := _problem_of(advantages, len(rewards))):
        raise OperatorFailed(f"{advantage.plugin}: {problem}")
    return None if advantages is None else [float(value) for value in advantages]


def _problem_of(result: Any, count: int) -> str:
    if not isinstance(result, list | tuple) or len(result) != count:
        return f"advantages() must return a list of {count} numbers, one for each reward, or None"
    for value in result:
        if type(value) not in (int, float) or not math.isfinite(value):
            return f"advantages() returned {value!r}, which is not a finite number"
    return ""
