"""Limits of a task's own for its answers: `meta.limits`, {max_tokens, time_s}."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

KEY = "limits"
MAX_TOKENS = "max_tokens"
TIME = "time_s"


class BadLimits(ValueError):
    """Limits in a task that cannot be kept; the message begins with the field."""


@dataclass(frozen=True)
class Limits:
    """Most tokens and most seconds of an answer; None: no limit of that kind."""

    max_tokens: int | None = None
    time_s: float | None = None

    def within(self, outer: "Limits") -> "Limits":
        """Return the tighter of each."""
        return Limits(_least(self.max_tokens, outer.max_tokens), _least(self.time_s, outer.time_s))


def limits_in(meta: Mapping[str, Any]) -> Limits:
    """Return the task's own. Raises BadLimits."""
    limits = meta.get(KEY)
    if limits is None:
        return Limits()
    if not isinstance(limits, Mapping):
        raise BadLimits(f"meta.{KEY}: must be an object with {MAX_TOKENS} and {TIME}")
    for name in limits:
        if name not in (MAX_TOKENS, TIME):
            raise BadLimits(f"meta.{KEY}.{name}: unknown limit; known are {MAX_TOKENS} and {TIME}")
    tokens = limits.get(MAX_TOKENS)
    seconds = limits.get(TIME)
    if tokens is not None and (
        isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1
    ):
        raise BadLimits(
            f"meta.{KEY}.{MAX_TOKENS}: must be a whole number, 1 or more, not {tokens!r}"
        )
    if seconds is not None and not _is_time(seconds):
        raise BadLimits(f"meta.{KEY}.{TIME}: must be a number of seconds above 0, not {seconds!r}")
    return Limits(tokens, seconds)


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value > 0
        and math.isfinite(value)
    )


Limit = TypeVar("Limit", int, float)


def _least(first: Limit | None, second: Limit | None) -> Limit | None:
    return min((limit for limit in (first, second) if limit is not None), default=None)
