"""Drops replies that nearly repeat an earlier reply to the same task.

Likeness is Jaccard's index of the sets of word n-grams; pairs are found by MinHash and banding
(Broder 1997; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, ch. 3) and then counted
exactly, so that none is left out that is less alike than told.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Sequence

import numpy
from pydantic import Field

from apps.pipelines.operators.contract import OperatorOptions, Sample, Sifted, group_samples, sift
from apps.tasksets.words import iterate_words

FAMILY = "filter"
VERSION = 2
BANDS = 32
# of the signature: a pair of likeness s is looked at with 1 − (1 − s⁴)³² (0.8: 1 − 5e-8, 0.5: 0.87)
ROWS = 4
PRIME = (1 << 31) - 1
SENTENCE_ENDS = frozenset(
    "。．、，！？；：…"
)  # signs that stand alone between words without blanks
MARKS = ".,;:!?" + "".join(SENTENCE_ENDS)
# Quotation marks as typewriters have them, and letters, digits and blanks of full width.
ONE_SIGN = {
    **{code: code - 0xFEE0 for code in range(0xFF10, 0xFF5B) if chr(code).isalnum()},
    **str.maketrans("“”„‘’‚\u3000", "\"\"\"''' "),
}
_random = numpy.random.default_rng(20)
_FACTORS = _random.integers(1, PRIME, BANDS * ROWS, dtype=numpy.uint64)
_SHIFTS = _random.integers(0, PRIME, BANDS * ROWS, dtype=numpy.uint64)


class Options(OperatorOptions):
    similarity: float = Field(
        0.9,
        ge=0.5,
        le=1,
        description=(
            "Similarity from which an answer counts as a duplicate; 1 requires identical answers."
        ),
    )
    ngram_size: int = Field(
        3,
        ge=1,
        le=20,
        description=(
            "Number of consecutive words that are compared. Shorter answers are "
            "compared as a whole."
        ),
    )


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop answers that repeat an earlier answer of their group; dropped ones do not count."""
    reasons: dict[int, str] = {}
    for members in group_samples(samples).values():
        reasons |= _repeats(members, options)
    return sift(samples, lambda sample: reasons.get(sample.rollout, ""))


def _repeats(members: list[Sample], options: Options) -> dict[int, str]:
    bands: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    shingles = [hash_shingles(sample.text, options.ngram_size) for sample in members]
    reasons: dict[int, str] = {}
    for place, sample in enumerate(members):
        keys = _bands(shingles[place])
        near = sorted({earlier for key in keys for earlier in bands[key]})
        twin = next(
            (
                earlier
                for earlier in near
                if jaccard(shingles[place], shingles[earlier]) >= options.similarity
            ),
            None,
        )
        if twin is None:
            for key in keys:
                bands[key].append(place)
        else:
            reasons[sample.rollout] = (
                f"near-duplicate of rollout {members[twin].rollout} in its group"
            )
    return reasons


def hash_shingles(text: str, ngram_size: int) -> frozenset[int]:
    """Return the set of runs of `ngram_size` lower-case words, as numbers below PRIME.

    A shorter text is one run. The marks that end sentences are no part of a word.
    """
    plain = unicodedata.normalize("NFC", text).translate(ONE_SIGN).lower()
    words = [word.strip(MARKS) or word for word in iterate_words(plain)]
    words = [word for word in words if word not in SENTENCE_ENDS]
    runs = [
        words[start : start + ngram_size] for start in range(max(1, len(words) - ngram_size + 1))
    ]
    return frozenset(
        int.from_bytes(hashlib.blake2b("\0".join(run).encode(), digest_size=8).digest()) % PRIME
        for run in runs
    )


def jaccard(first: frozenset[int], second: frozenset[int]) -> float:
    return len(first & second) / len(first | second)


def _bands(shingles: frozenset[int]) -> list[tuple[int, bytes]]:
    """Return the bands of a MinHash signature.

    Two texts of likeness s share a band with probability 1 − (1 − s^ROWS)^BANDS.
    """
    values = numpy.fromiter(shingles, numpy.uint64, len(shingles))
    hashes = (values[:, None] * _FACTORS + _SHIFTS) % PRIME  # (shingles, BANDS * ROWS)
    bands = hashes.min(axis=0).reshape(BANDS, ROWS)
    return [(number, band.tobytes()) for number, band in enumerate(bands)]
