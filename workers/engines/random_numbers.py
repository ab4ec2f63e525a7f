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
BLOCK = 256  # neighbouring tokens of the vocabulary


class Seeds:
    """Seeds for requests that bring none: from the operating system, or numbered from `seed`."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.given = 0

    def next(self) -> int:
        if self.seed is None:
            return secrets.randbits(SEED_BITS)
        self.given += 1
        return chance.derive_seed("request", self.seed, self.given)


def stretch_seed(seed: int, place: int) -> int:
    """Return the seed for an engine with its own generators, which starts at this position."""
    return chance.derive_seed("stretch", seed, place)


def uniforms(seeds: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return numbers in [0, 1), float64, one for each pair of int64 seed and place."""
    mixed = _mixed(_mixed(seeds + GOLDEN) ^ _mixed((places + 1) * GOLDEN))
    return _shifted(mixed, 64 - MANTISSA_BITS).double() * 2.0**-MANTISSA_BITS


def draw_tokens(logits: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token id per row, and return it with its logprob, both (R,).

    `logits` (R, vocabulary) are divided by the temperature already; `uniform` (R,) holds one number
    in [0, 1) per row. Sums are taken in float64: in float32 the tail of a large vocabulary would be
    rounded away. A row is summed by blocks, and only the block that holds the token by its tokens,
    which takes a quarter of the time that a cumulative sum of the whole row takes.
    """
    vocabulary = logits.shape[1]
    highest = logits.amax(-1, keepdim=True)
    weights = (logits - highest).exp_()
    sums = _sum_blocks(weights).cumsum(-1)
    total = sums[:, -1]
    goal = _below(uniform * total, total)
    block = torch.searchsorted(sums, goal[:, None], right=True).clamp_(max=sums.shape[1] - 1)
    before = torch.nn.functional.pad(sums, (1, 0)).gather(1, block)
    ids = block * BLOCK + torch.arange(BLOCK, device=logits.device)
    inside = weights.gather(1, ids.clamp(max=vocabulary - 1)).masked_fill_(ids >= vocabulary, 0.0)
    inside = inside.cumsum(-1, dtype=torch.float64)
    rest = _below(goal - before[:, 0], inside[:, -1])
    place = torch.searchsorted(inside, rest[:, None], right=True)
    chosen = (block * BLOCK + place).clamp_(max=vocabulary - 1)  # NaN sorts behind everything
    logprobs = (logits.gather(1, chosen) - highest)[:, 0] - total.log().to(logits.dtype)
    return chosen[:, 0], logprobs


def _sum_blocks(weights: torch.Tensor) -> torch.Tensor:
    """Return the sums (R, blocks), in float64, of consecutive blocks of each row's numbers."""
    whole = weights.shape[1] // BLOCK * BLOCK
    blocks = weights[:, :whole].unflatten(1, (-1, BLOCK)).sum(-1, dtype=torch.float64)
    rest = weights[:, whole:].sum(-1, keepdim=True, dtype=torch.float64)
    return torch.cat([blocks, rest], 1)


def _below(values: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """Return the values, each at least 0 and below its bound even after rounding.

    So the token found there has a probability above 0.
    """
    return torch.minimum(values.clamp(min=0), torch.nextafter(bound, torch.zeros_like(bound)))


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    """Mix bits by SplitMix64's finalizer: every bit of the result depends on every bit given."""
    bits = (bits ^ _shifted(bits, 30)) * FIRST_FACTOR
    bits = (bits ^ _shifted(bits, 27)) * SECOND_FACTOR
    return bits ^ _shifted(bits, 31)


def _shifted(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Shift right without the sign: torch's own shift of int64 repeats it."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
