"""What the rater model sees of a reply: which words it has, how long it is, what it shares with its prompt, how it surprises.

Words alone can be learned by heart and be put together to nonsense that pleases the model; what the frozen base weights find
surprising is what keeps it to replies that a speaker would make.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

WORD = re.compile(r"\w+|[^\w\s]")
COLUMNS_FOR_WORDS = 1024  # of words as they come; later ones share what follows
SHARED_COLUMNS = 256
TOPIC = 0.1  # a word that at most this share of the prompts has says what a prompt is about
RARE_ABOVE = 4.0  # nats: a token that the base weights give less than 1.8 %
NUMBERS = ("words", "overlap", "names the topic", "names another topic", "repeats", "mean surprise", "worst", "rare", "any rare")


@dataclass(frozen=True)
class Surprise:
    """−log p of a reply's tokens under the frozen base weights, in nats: their mean, the worst, how many are above RARE_ABOVE."""

    mean: float
    worst: float
    rare: int

    @classmethod
    def of(cls, surprises: Sequence[float]) -> "Surprise":
        """Of one reply's tokens; raises ValueError when there is none or one is no number."""
        if not surprises or not all(math.isfinite(one) for one in surprises):
            raise ValueError("a reply without tokens, or with one whose probability is no number")
        return cls(math.fsum(surprises) / len(surprises), max(surprises), sum(one > RARE_ABOVE for one in surprises))


@dataclass(frozen=True)
class Seen:
    """One reply as the model sees it: its different words, and the numbers of NUMBERS, each of the order of 1."""

    words: frozenset[str]
    numbers: tuple[float, ...]


class Topics:
    """Which words say what a prompt is about: those that few prompts of the taskset have."""

    def __init__(self, prompts: Iterable[str]) -> None:
        found, count = Counter(), 0
        for prompt in prompts:
            found.update(set(words_of(prompt)))
            count += 1
        self.words = frozenset(word for word, times in found.items() if times <= max(1.0, TOPIC * count))


def words_of(text: str) -> list[str]:
    """Words and marks in their order, without case."""
    return WORD.findall(text.casefold())


def read(prompt: str, reply: str, surprise: Surprise, topics: Topics) -> Seen:
    said, asked = words_of(reply), frozenset(words_of(prompt))
    different = frozenset(said)
    about = asked & topics.words
    numbers = (
        math.log1p(len(said)) / 3,
        len(different & asked) / max(1, len(different)),
        float(bool(different & about)),
        float(bool((different & topics.words) - asked)),
        1 - len(different) / max(1, len(said)),
        surprise.mean / 2,
        min(surprise.worst, 20.0) / 8,
        math.log1p(surprise.rare),
        float(surprise.rare > 0),
    )
    return Seen(different, numbers)


class Vocabulary:
    """Columns for words, in the order in which they were first met; once these are used up, words share the rest."""

    def __init__(self) -> None:
        self.columns: dict[str, int] = {}

    def meet(self, words: Iterable[str]) -> None:
        """Give new words of a learned reply their columns; sorted, so that the same decisions always make the same columns."""
        for word in sorted(words):
            if word not in self.columns:
                n = len(self.columns)
                shared = COLUMNS_FOR_WORDS + zlib.crc32(word.encode()) % SHARED_COLUMNS
                self.columns[word] = n if n < COLUMNS_FOR_WORDS else shared

    @property
    def width(self) -> int:
        n = len(self.columns)
        return n if n <= COLUMNS_FOR_WORDS else COLUMNS_FOR_WORDS + SHARED_COLUMNS

    def matrix(self, rows: Sequence[Seen]) -> tuple[np.ndarray, np.ndarray]:
        """(n, len(NUMBERS) + width) of numbers and word presence, and (n,) how many words of each row are not known."""
        table = np.zeros((len(rows), len(NUMBERS) + self.width))
        unknown = np.zeros(len(rows))
        for n, row in enumerate(rows):
            table[n, : len(NUMBERS)] = row.numbers
            for word in row.words:
                place = self.columns.get(word)
                if place is None:
                    unknown[n] += 1
                else:
                    table[n, len(NUMBERS) + place] = 1.0
        return table, unknown
