"""Answers that are nearly one of the same task's before: the first stays.

Likeness is Jaccard's index of the sets of word n-grams; pairs are found by MinHash and banding (Broder 1997; Leskovec, Rajaraman,
Ullman, Mining of Massive Datasets, ch. 3) and then counted exactly, so that none is left out that is less alike than told.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

import numpy
from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, grouped, sift

FAMILY = "filter"
BANDS, ROWS = 32, 4  # of the signature: a pair of likeness s is looked at with 1 − (1 − s⁴)³² (0.8: 1 − 5e-8, 0.5: 0.87)
PRIME = (1 << 31) - 1
_random = numpy.random.default_rng(20)
_FACTORS = _random.integers(1, PRIME, BANDS * ROWS, dtype=numpy.uint64)
_SHIFTS = _random.integers(0, PRIME, BANDS * ROWS, dtype=numpy.uint64)


class Options(OperatorOptions):
    likeness: float = Field(0.9, ge=0.5, le=1, description="From which on an answer is the same as one before; 1 takes equal ones.")
    n: int = Field(3, ge=1, le=20, description="Words in a row that are compared; shorter answers are compared as wholes.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Compares the answers of a group, in their order; one that was left out is not compared with any more."""
    left: dict[int, str] = {}
    for members in grouped(samples).values():
        left |= _repeats(members, options)
    return sift(samples, lambda sample: left.get(sample.rollout, ""))


def _repeats(members: list[Sample], options: Options) -> dict[int, str]:
    bands: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    shingles = [shingles_of(sample.text, options.n) for sample in members]
    found: dict[int, str] = {}
    for place, sample in enumerate(members):
        keys = _bands(shingles[place])
        near = sorted({other for key in keys for other in bands[key]})
        twin = next((other for other in near if jaccard(shingles[place], shingles[other]) >= options.likeness), None)
        if twin is None:
            for key in keys:
                bands[key].append(place)
        else:
            found[sample.rollout] = f"nearly the same as rollout {members[twin].rollout} of its group"
    return found


def shingles_of(text: str, n: int) -> frozenset[int]:
    """The set of runs of `n` lower-case words, as numbers below PRIME; of a shorter text the one run that it is."""
    words = text.lower().split()
    runs = [words[start : start + n] for start in range(max(1, len(words) - n + 1))]
    return frozenset(int.from_bytes(hashlib.blake2b("\0".join(run).encode(), digest_size=8).digest()) % PRIME for run in runs)


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / len(one | other)


def _bands(shingles: frozenset[int]) -> list[tuple[int, bytes]]:
    """Two texts of likeness s share one with 1 − (1 − s^ROWS)^BANDS."""
    values = numpy.fromiter(shingles, numpy.uint64, len(shingles))
    signature = ((values[:, None] * _FACTORS + _SHIFTS) % PRIME).min(axis=0)
    return [(band, signature[band * ROWS : (band + 1) * ROWS].tobytes()) for band in range(BANDS)]
