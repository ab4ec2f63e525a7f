"""Random numbers for sampling, each a function of a request's seed and a token's place in the text.

They depend on nothing else: not on the batch, on restarts of the engine, or on earlier requests. So
a sample gets the same numbers alone, among others, or in several stretches. A uniform number
selects a token by inverting the cumulative distribution.
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
    """Seeds for requests that bring none: random ones, or numbered from `seed`."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.given = 0

    def next(self) -> int:
        if self.seed is None:
            return secrets.randbits(SEED_BITS)
        self.given += 1
        return chance.derive_seed("request", self.seed, self.given)


def stretch_seed(seed: int, place: int) -> int:
    """Return the seed for an engine with a generator of its own that starts at this position."""
    return chance.derive_seed("stretch", seed, place)


def uniforms(seeds: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return numbers in [0, 1), float64, one for each pair of int64 seed and place."""
    mixed = _mixed(_mixed(seeds + GOLDEN) ^ _mixed((places + 1) * GOLDEN))
    return _shifted(mixed, 64 - MANTISSA_BITS).double() * 2.0**-MANTISSA_BITS


def draw_tokens(logits: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token id per row; return the ids and their logprobs, both (R,).

    `logits` (R, vocabulary) are already divided by the temperature; `uniform` (R,) holds one number
    in [0, 1) per row. Sums are taken in float64: in float32 the tail of a large vocabulary would be
    rounded away. Each row is summed by blocks, and only the block that holds the token is summed
    token by token, which takes a quarter of the time of a cumulative sum over the row.
    """
    vocabulary = logits.shape[1]
    # Find the block in which the cumulative sum passes the goal.
    highest = logits.amax(-1, keepdim=True)
    weights = (logits - highest).exp_()
    sums = _sum_blocks(weights).cumsum(-1)
    total = sums[:, -1]
    goal = _below(uniform * total, total)
    block = torch.searchsorted(sums, goal[:, None], right=True).clamp_(max=sums.shape[1] - 1)
    before = torch.nn.functional.pad(sums, (1, 0)).gather(1, block)
    # Find the token within that block.
    ids = block * BLOCK + torch.arange(BLOCK, device=logits.device)
    inside = weights.gather(1, ids.clamp(max=vocabulary - 1)).masked_fill_(ids >= vocabulary, 0.0)
    inside = inside.cumsum(-1, dtype=torch.float64)
    goal_inside = _below(goal - before[:, 0], inside[:, -1])
    place = torch.searchsorted(inside, goal_inside[:, None], right=True)
    chosen = (block * BLOCK + place).clamp_(max=vocabulary - 1)  # NaN sorts behind everything
    logprobs = (logits.gather(1, chosen) - highest)[:, 0] - total.log().to(logits.dtype)
    return chosen[:, 0], logprobs


def _sum_blocks(weights: torch.Tensor) -> torch.Tensor:
    """Return the sums (R, blocks), in float64, of consecutive blocks of each row's numbers."""
    whole = weights.shape[1] // BLOCK * BLOCK
    blocks = weights[:, :whole].unflatten(1, (-1, BLOCK)).sum(-1, dtype=torch.float64)
    last_sum = weights[:, whole:].sum(-1, keepdim=True, dtype=torch.float64)
    return torch.cat([blocks, last_sum], 1)


def _below(values: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """Clamp values to [0, bound), so that rounding cannot push one up to its bound.

    So the token at that place has a probability above 0.
    """
    return torch.minimum(values.clamp(min=0), torch.nextafter(bound, torch.zeros_like(bound)))


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    """Mix bits by SplitMix64's finalizer: every output bit depends on every input bit."""
    bits = (bits ^ _shifted(bits, 30)) * FIRST_FACTOR
    bits = (bits ^ _shifted(bits, 27)) * SECOND_FACTOR
    return bits ^ _shifted(bits, 31)


def _shifted(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Shift right and fill with zeros: torch's own shift of int64 repeats the sign bit."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
