"""Features of a reply: its words, its length, its overlap with the prompt, its base NLL.

Words alone can be memorised and combined into nonsense that pleases the model; the NLL under the
frozen base weights keeps it to replies that a speaker would make.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

WORD = re.compile(r"\w+|[^\w\s]")
COLUMNS_FOR_WORDS = 1024  # columns for words in order of appearance; later words share them
SHARED_COLUMNS = 256
TOPIC = 0.1  # a word in at most this share of the prompts identifies a topic
RARE_ABOVE = 4.0  # nats: a token with a probability below 1.8 %
NUMBERS = (
    "words",
    "overlap",
    "names the topic",
    "names another topic",
    "repeats",
    "mean surprise",
    "worst",
    "rare",
    "any rare",
)


@dataclass(frozen=True)
class BaseNll:
    """The NLL of a reply's tokens under the frozen base weights, in nats.

    The values are their mean, the worst, and how many are above RARE_ABOVE.
    """

    mean: float
    worst: float
    rare: int

    @classmethod
    def of(cls, surprises: Sequence[float]) -> "BaseNll":
        """Compute it from one reply's tokens.

        Raises ValueError without tokens, or for a non-finite one.
        """
        if not surprises or not all(math.isfinite(surprise) for surprise in surprises):
            raise ValueError("a reply without tokens, or with one whose probability is no number")
        return cls(
            math.fsum(surprises) / len(surprises),
            max(surprises),
            sum(surprise > RARE_ABOVE for surprise in surprises),
        )


@dataclass(frozen=True)
class ReplyFeatures:
    """The features of one reply: its different words, and the numbers NUMBERS, each of order 1."""

    words: frozenset[str]
    numbers: tuple[float, ...]


class Topics:
    """The words that identify a prompt's topic: those that few prompts of the taskset have."""

    def __init__(self, prompts: Iterable[str]) -> None:
        prompts_with_word: Counter[str] = Counter()
        count = 0
        for prompt in prompts:
            prompts_with_word.update(set(split_words_and_marks(prompt)))
            count += 1
        self.words = frozenset(
            word for word, times in prompts_with_word.items() if times <= max(1.0, TOPIC * count)
        )


def split_words_and_marks(text: str) -> list[str]:
    """Return words and punctuation marks in order, in lower case."""
    return WORD.findall(text.casefold())


def extract_features(prompt: str, reply: str, surprise: BaseNll, topics: Topics) -> ReplyFeatures:
    words = split_words_and_marks(reply)
    prompt_words = frozenset(split_words_and_marks(prompt))
    different = frozenset(words)
    about = prompt_words & topics.words
    numbers = (
        math.log1p(len(words)) / 3,
        len(different & prompt_words) / max(1, len(different)),
        float(bool(different & about)),
        float(bool((different & topics.words) - prompt_words)),
        1 - len(different) / max(1, len(words)),
        surprise.mean / 2,
        min(surprise.worst, 20.0) / 8,
        math.log1p(surprise.rare),
        float(surprise.rare > 0),
    )
    return ReplyFeatures(different, numbers)


class Vocabulary:
    """Columns for words, in order of first use; once these are used up, words share the rest."""

    def __init__(self) -> None:
        self.columns: dict[str, int] = {}

    def meet(self, words: Iterable[str]) -> None:
        """Assign columns to the new words of a learned reply.

        They are sorted, so that the same decisions always make the same columns.
        """
        for word in sorted(words):
            if word not in self.columns:
                n = len(self.columns)
                shared = COLUMNS_FOR_WORDS + zlib.crc32(word.encode()) % SHARED_COLUMNS
                self.columns[word] = n if n < COLUMNS_FOR_WORDS else shared

    @property
    def width(self) -> int:
        n = len(self.columns)
        return n if n <= COLUMNS_FOR_WORDS else COLUMNS_FOR_WORDS + SHARED_COLUMNS

    def matrix(self, rows: Sequence[ReplyFeatures]) -> tuple[np.ndarray, np.ndarray]:
        """Return features (n, len(NUMBERS) + width), and (n,) counts of unknown words."""
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
