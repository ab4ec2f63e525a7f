"""Random numbers for sampling, each a function of a request's seed and a token's place in the text.

Nothing else enters: not the batch, not how often the engine was started, not how many requests came
before. So a sample gets the same numbers alone, among others, or in several stretches.
A uniform number picks a token by inverting the cumulative distribution.
"""

import secrets

import torch

import apps.tasksets.selection.chance as chance

SEED_BITS = 63
# SplitMix64's constants, as signed 64-bit numbers.
GOLDEN = -0x61C8864680B583EB
FIRST_FACTOR = -0x40A7B892E31B1A47
SECOND_FACTOR = -0x6B2FB644ECCEEE15
MANTISSA_BITS = 53


class Seeds:
    """Seeds for requests that bring none: from the operating system, or numbered from `seed`."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.given = 0

    def next(self) -> int:
        if self.seed is None:
            return secrets.randbits(SEED_BITS)
        self.given += 1
        return chance.seed("request", self.seed, self.given)


def stretch_seed(seed: int, place: int) -> int:
    """Seed for an engine with generators of its own, which begins at this place of the text."""
    return chance.seed("stretch", seed, place)


def uniforms(seeds: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Numbers in [0, 1), float64, one for each pair of int64 seed and place."""
    mixed = _mixed(_mixed(seeds + GOLDEN) ^ _mixed((places + 1) * GOLDEN))
    return _shifted(mixed, 64 - MANTISSA_BITS).double() * 2.0**-MANTISSA_BITS


def pick(logprobs: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Token ids (R,) by logprobs (R, vocabulary) and one number in [0, 1) per row.

    Sums are taken in float64: in float32 the tail of a large vocabulary would be rounded away.
    """
    sums = logprobs.exp().cumsum(-1, dtype=torch.float64)
    total = sums[:, -1]
    # Below the total even after rounding, so that the token found has a probability above 0.
    goal = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    found = torch.searchsorted(sums, goal[:, None], right=True)[:, 0]
    return found.clamp_(max=logprobs.shape[1] - 1)  # NaN sorts behind everything


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finalizer: every bit of the result depends on every bit given."""
    bits = (bits ^ _shifted(bits, 30)) * FIRST_FACTOR
    bits = (bits ^ _shifted(bits, 27)) * SECOND_FACTOR
    return bits ^ _shifted(bits, 31)


def _shifted(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Shifted right without the sign: torch's own shift of int64 repeats it."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
