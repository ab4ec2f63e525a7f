"""What an experience counts in one update: its advantage, and that of each token where they differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Credit:
    """`tokens`: the advantage of each completion token, where they are not all `advantage`; then that is their mean."""

    advantage: float
    tokens: tuple[float, ...] | None = None

    @classmethod
    def of(cls, tokens: Sequence[float], mask: Sequence[int]) -> "Credit":
        """From the advantages of all completion tokens; those outside the mask are nobody's."""
        own = [advantage for advantage, here in zip(tokens, mask, strict=True) if here]
        if not own:
            return cls(0.0)
        return cls(own[0]) if min(own) == max(own) else cls(math.fsum(own) / len(own), tuple(tokens))

    @property
    def packed(self) -> bytes | None:
        """Little-endian float32 per token, or nothing where all are alike."""
        return None if self.tokens is None else np.asarray(self.tokens, "<f4").tobytes()

    @classmethod
    def unpack(cls, advantage: float, data: bytes | None) -> "Credit":
        return cls(advantage, None if data is None else tuple(np.frombuffer(bytes(data), "<f4").tolist()))
