"""Phrases that one side's replies have and the other's lack, by a test for each phrase."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

MAX_PHRASE_WORDS = 4  # words of a phrase
MAX_PHRASES = 8  # phrases
MIN_REPLIES = 3  # replies that have a phrase on one side only
SURE = 3.0  # standard deviations of McNemar's test; many phrases are looked at
WORDS_READ = 400  # of a reply


@dataclass(frozen=True)
class Phrase:
    """A phrase with the number of pairs in which only the one, or only the other, has it."""

    words: tuple[str, ...]
    gained: int
    lost: int

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def certainty(self) -> float:
        """Return McNemar's statistic in standard deviations: gains less losses."""
        return (self.gained - self.lost) / sqrt(self.gained + self.lost)


def phrases_in(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return all phrases of one to four words among the first words."""
    words_read = tuple(words[:WORDS_READ])
    return {
        words_read[start : start + size]
        for size in range(1, MAX_PHRASE_WORDS + 1)
        for start in range(len(words_read) - size + 1)
    }


def changed_phrases(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[Phrase]:
    """Return the phrases that the second of each pair gained or lost most certainly.

    Of phrases within each other, the longest with the same counts stands for all.
    """
    gained: Counter[tuple[str, ...]] = Counter()
    lost: Counter[tuple[str, ...]] = Counter()
    for before, after in pairs:
        phrases_before = phrases_in(before)
        phrases_after = phrases_in(after)
        gained.update(phrases_after - phrases_before)
        lost.update(phrases_before - phrases_after)
    changed = [
        Phrase(words, gained[words], lost[words])
        for words in gained.keys() | lost.keys()
        if max(gained[words], lost[words]) >= MIN_REPLIES
    ]
    sure = [phrase for phrase in changed if abs(phrase.certainty) >= SURE]
    sure.sort(key=lambda phrase: (-abs(phrase.certainty), -len(phrase.words), phrase.words))
    return _without_nested(sure)


def _without_nested(phrases: Sequence[Phrase]) -> list[Phrase]:
    chosen_phrases: list[Phrase] = []
    for phrase in phrases:
        if not any(_overlaps(phrase, chosen) for chosen in chosen_phrases):
            chosen_phrases.append(phrase)
        if len(chosen_phrases) == MAX_PHRASES:
            break
    return chosen_phrases


def _overlaps(first: Phrase, second: Phrase) -> bool:
    """Tell whether the phrases share a word and change in the same direction."""
    is_same_way = (first.certainty > 0) == (second.certainty > 0)
    return is_same_way and bool(set(first.words) & set(second.words))
