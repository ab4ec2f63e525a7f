"""The weight of an experience in one step: its advantage, per token where tokens differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Credit:
    """The advantage of an experience in one step.

    `tokens` holds the advantage of each completion token when they are not all alike; `advantage`
    is then their mean.
    """

    advantage: float
    tokens: tuple[float, ...] | None = None

    @classmethod
    def of(cls, tokens: Sequence[float], mask: Sequence[int]) -> "Credit":
        """Build a Credit from the advantages of all completion tokens.

        Only tokens inside the mask count. Without any, the advantage is 0.
        """
        advantages = [
            advantage for advantage, is_action in zip(tokens, mask, strict=True) if is_action
        ]
        if not advantages:
            return cls(0.0)
        return (
            cls(advantages[0])
            if min(advantages) == max(advantages)
            else cls(math.fsum(advantages) / len(advantages), tuple(tokens))
        )

    @property
    def packed(self) -> bytes | None:
        """Return the token advantages as little-endian float32, or None when all are alike."""
        return None if self.tokens is None else np.asarray(self.tokens, "<f4").tobytes()

    @classmethod
    def unpack(cls, advantage: float, data: bytes | memoryview | None) -> "Credit":
        return cls(
            advantage, None if data is None else tuple(np.frombuffer(bytes(data), "<f4").tolist())
        )
