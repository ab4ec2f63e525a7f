"""Overlap of tasksets: a policy trained on the tasks it is tested with has learned the test.

    exact  the texts are the same but for case, white space and Unicode's ways to write one
    character (NFKC)
    near   share = |G(a) ∩ G(b)| / |G(a)| ≥ threshold, G the set of a text's word 8-grams

The share is Broder's containment (On the resemblance and containment of documents, 1997) of the
checked text in the other; eight words and 0.7 are PaLM's (Chowdhery et al. 2022, section 8). A sign
counts as a word, for sums differ by these. A text of fewer than eight words has no 8-gram and is
compared exactly alone. 8-grams of more than `MAX_SHARED` checked texts are their template: they
count on neither side.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from apps.tasksets.words import iterate_words

WORDS = 8
THRESHOLD = 0.7
MAX_SHARED = 100
MAX_GRAMS = 20_000_000  # of the checked side: 12 bytes each are held in memory
WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, order=True)
class Pair:
    """Overlapping texts, by their places on their sides.

    `share` of the checked text's 8-grams; 1.0 where it is exact.
    """

    checked: int
    other: int
    share: float
    is_exact: bool


class TooMuch(ValueError):
    """Raised if the checked side is too large to be held in memory."""


def normalise_words(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def digest_ngrams(text: str) -> set[int]:
    """Return 64-bit digests of the normalised text's word 8-grams.

    Two different 8-grams have the same digest once in some 10^19 pairs.
    """
    parts = iterate_words(normalise_words(text))
    words = [word for part in parts for word in WORD.findall(part)]
    starts = range(len(words) - WORDS + 1)
    return {_digest(" ".join(words[start : start + WORDS])) for start in starts}


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class OverlapIndex:
    """Index of the checked side in memory: digests, and texts by 8-gram. Raises TooMuch."""

    def __init__(self, texts: Iterable[str], limit: int = MAX_GRAMS) -> None:
        self.whole: dict[int, list[int]] = {}
        grams = []
        owners = []
        count = 0
        for place, text in enumerate(texts):
            self.whole.setdefault(_digest(normalise_words(text)), []).append(place)
            ngrams = digest_ngrams(text)
            count += len(ngrams)
            if count > limit:
                raise TooMuch(
                    f"has more than {limit} 8-grams; check the smaller set against the larger one,"
                    " or a part of it"
                )
            grams.append(np.fromiter(ngrams, np.uint64, len(ngrams)))
            owners.append(np.full(len(ngrams), place, np.uint32))
        self._index(
            np.concatenate([*grams, np.empty(0, np.uint64)]),
            np.concatenate([*owners, np.empty(0, np.uint32)]),
            len(owners),
        )

    def _index(self, grams: np.ndarray, owners: np.ndarray, texts: int) -> None:
        """Sort the texts by 8-gram, without those of templates.

        `sizes` is how many 8-grams are left of each text.
        """
        order = np.argsort(grams, kind="stable")
        grams = grams[order]
        owners = owners[order]
        _, starts, counts = np.unique(grams, return_index=True, return_counts=True)
        is_distinctive = (
            np.repeat(counts <= MAX_SHARED, counts) if len(starts) else np.empty(0, bool)
        )
        self.grams, self.owners = grams[is_distinctive], owners[is_distinctive]
        self.sizes = np.bincount(self.owners, minlength=texts)

    def meets(self, place: int, text: str, threshold: float = THRESHOLD) -> Iterator[Pair]:
        """Yield pairs of this text, at `place` in the other set, with equal or near texts."""
        exact = self.whole.get(_digest(normalise_words(text)), ())
        yield from (Pair(checked, place, 1.0, True) for checked in exact)
        for checked, shared in self._count_shared(digest_ngrams(text)).items():
            share = shared / int(self.sizes[checked])
            if share >= threshold and checked not in exact:
                yield Pair(checked, place, share, False)

    def _count_shared(self, grams: set[int]) -> Counter[int]:
        hashes = np.fromiter(grams, np.uint64, len(grams))
        firsts = np.searchsorted(self.grams, hashes, "left")
        lasts = np.searchsorted(self.grams, hashes, "right")
        counts: Counter[int] = Counter()
        for first, last in zip(firsts, lasts, strict=True):
            if last > first:
                counts.update(self.owners[first:last].tolist())
        return counts


def find_overlapping_pairs(
    checked: Iterable[str], other: Iterable[str], threshold: float = THRESHOLD
) -> Iterator[Pair]:
    """Yield every pair that is the same or near; `checked` is held in memory, `other` is streamed.

    Raises TooMuch.
    """
    index = OverlapIndex(checked)
    for place, text in enumerate(other):
        yield from index.meets(place, text, threshold)
