"""Drops groups of a kind that is overrepresented in recent groups: domain, length or success.

    a_k    share of band k among the last `window` groups that came here
    level  m with  m / Σ_j min(a_j, m) = max_share  (the largest band brought down to
    `max_share`), or min_j a_j where that is out of reach
    chance of a group of band k to stay:  max(min_keep_probability, min(1, m / a_k))

Whether it stays is drawn from its number and the seed, against groups that were closed before it
was judged: a second try decides alike. What is left out was sampled and judged for nothing, up to 1
/ `min_keep_probability` groups for one; where the mix of tasks alone is to change, the
selection `mixture` costs nothing.

What it does to what is learned: by domain it changes the mix of tasks, and the gradient is that of
the new mix. By length or success it chooses groups by what the policy itself did, so the gradient
is biased: what is rare weighs more than it is asked, and what came out rare by chance more still.
No weight corrects it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from apps.pipelines.operators.contract import (
    GroupMetrics,
    OperatorOptions,
    Sample,
    Sifted,
    sift_groups,
)

FAMILY = "filter"
ASKS = ("recent",)
BANDS = 5  # of success
EXACT = 1e-9


class Options(OperatorOptions):
    attribute: Literal["domain", "length", "success"] = Field(
        "domain",
        description=(
            "Property to balance: the task's domain, mean tokens (in powers of two) or mean "
            "success (in fifths)."
        ),
    )
    max_share: float = Field(
        0.5, gt=0, lt=1, description="Maximum share of recent groups that one band may have."
    )
    min_keep_probability: float = Field(
        0.25,
        ge=0.01,
        le=1,
        description="Minimum probability that a group is kept, in every band.",
    )
    window: int = Field(
        200, ge=10, le=1_000, description="Number of previous groups to compare with."
    )
    min_groups: int = Field(
        50, ge=10, le=1_000, description="If there are fewer previous groups, keep all."
    )
    seed: int = Field(0, ge=0, description="Seed for the random choice of kept groups.")

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.min_groups > self.window:
            raise ValueError(
                f"min_groups ({self.min_groups}) must not be greater than window ({self.window})"
            )
        return self


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift_groups(samples, lambda members: _why_not(members[0], options))


def _why_not(sample: Sample, options: Options) -> str:
    before = sample.recent.before[: options.window] if sample.recent else ()
    if sample.recent is None or len(before) < options.min_groups:
        return ""
    counts = Counter(choose_band(metrics, options.attribute) for metrics in before)
    band = choose_band(sample.recent.own, options.attribute)
    shares = {name: count / len(before) for name, count in counts.items()}
    chance = keep_probability(band, shares, options)
    if draw_uniform(sample.group, options) < chance:
        return ""
    return (
        f"{band} makes up {shares[band]:.0%} of the last {len(before)} groups; {chance:.0%} "
        "of these are kept"
    )


def choose_band(metrics: GroupMetrics, attribute: str) -> str:
    if attribute == "domain":
        return f"domain {metrics.domain!r}" if metrics.domain else "no domain"
    if attribute == "length":
        low = 1 << max(0, int(metrics.tokens).bit_length() - 1)
        return f"length {low} to {2 * low - 1}"
    fifth = min(BANDS - 1, int(metrics.success * BANDS))
    return f"success {fifth / BANDS:g} to {(fifth + 1) / BANDS:g}"


def keep_probability(band: str, shares: Mapping[str, float], options: Options) -> float:
    """Return the probability that a group of this band is kept; 1 for a band not seen before."""
    if band not in shares:
        return 1.0
    return max(
        options.min_keep_probability,
        min(1.0, level(shares.values(), options.max_share) / shares[band]),
    )


def level(shares: Iterable[float], max_share: float) -> float:
    """Return the level to cut larger shares to, so that the largest is `max_share` of all."""
    falling = sorted(shares, reverse=True)
    if falling[0] <= max_share:
        return falling[0]
    for cut in range(1, len(falling)):
        if cut * max_share < 1 - EXACT:
            limit = max_share * sum(falling[cut:]) / (1 - cut * max_share)
            if limit >= falling[cut] - EXACT:
                return limit
    return falling[-1]


def draw_uniform(group: int, options: Options) -> float:
    """Return a fixed number from 0 to 1 for this group, seed and `attribute`."""
    seed = f"{options.seed}:{options.attribute}:{group}".encode()
    return int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest()) / 2**64
