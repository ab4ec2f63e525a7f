"""Short answers by their words: a marking scheme of key ideas, each said in one of several ways, and not denied.

Words are compared by their stems. What cannot be decided so, a paraphrase, is said to be undecided.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST = 20_000  # characters that are read
MOST_IDEAS = 50
BEFORE = 4  # words in front of an idea in which a "not" denies it
NEGATIONS = frozenset(
    {
        "no", "not", "never", "none", "neither", "nor", "cannot", "without", "isnt", "arent", "wasnt", "werent", "doesnt",
        "dont", "didnt", "cant", "couldnt", "wont", "wouldnt", "hasnt", "havent", "nothing", "false", "incorrect", "wrong",
        "untrue", "unlike", "lack", "lacks", "instead",
    }
)  # fmt: skip
_ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ies", "ied", "ed", "es", "ly", "s", "e")
# A run of blanks within a line is read from its first one only, or from the comma in front of it.
_CLAUSE = re.compile(
    r"[.;:!?\n]|(?:,|(?<!,)(?<![^\S\n]))[^\S\n]++(?:but|however|although|whereas)\s++", re.IGNORECASE
)


@dataclass(frozen=True)
class Idea:
    """Worth `points` where one of the ways is said."""

    any_of: tuple[str, ...]
    points: float


@dataclass(frozen=True)
class Scheme:
    """`reference`: whole answers that are right; `wrong`: statements that cost one idea's worth each."""

    ideas: tuple[Idea, ...]
    reference: tuple[str, ...]
    wrong: tuple[Idea, ...] = ()

    @property
    def total(self) -> float:
        return sum(idea.points for idea in self.ideas)


@dataclass(frozen=True)
class Marked:
    """`found`, `denied`, `missing` and `wrong`: ideas by their first way; `points` of the scheme's total."""

    points: float
    found: list[str]
    denied: list[str]
    missing: list[str]
    wrong: list[str]


def scheme(answer: Mapping[str, Any]) -> Scheme | None:
    """From `ideas`, `reference` (or `value`) and `wrong`; None where there is nothing to mark by."""
    reference = next((answer[name] for name in ("reference", "value", "answer") if answer.get(name)), [])
    texts = [reference] if isinstance(reference, str) else reference
    ideas, wrong = _ideas(answer.get("ideas", [])), _ideas(answer.get("wrong", []))
    if ideas is None or wrong is None or not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return None
    found = Scheme(ideas, tuple(text for text in texts if words(text)), wrong)
    return found if found.ideas or found.reference else None


def _ideas(said: Any) -> tuple[Idea, ...] | None:
    if not isinstance(said, list) or len(said) > MOST_IDEAS:
        return None
    found = [_idea(each) for each in said]
    return None if None in found else tuple(found)


def _idea(said: Any) -> Idea | None:
    if isinstance(said, str):
        said = {"any_of": [said]}
    if not isinstance(said, dict):
        return None
    ways, points = said.get("any_of", said.get("idea")), said.get("points", 1)
    ways = [ways] if isinstance(ways, str) else ways
    is_number = isinstance(points, int | float) and not isinstance(points, bool) and 0 < points < 1e6
    if not isinstance(ways, list) or not ways or not all(isinstance(way, str) and words(way) for way in ways) or not is_number:
        return None
    return Idea(tuple(ways), float(points))


def words(text: str) -> list[str]:
    """Stems in lower case, without accents and marks."""
    plain = unicodedata.normalize("NFKD", text[:LONGEST].lower().replace("’", "'"))
    plain = "".join(sign for sign in plain if not unicodedata.combining(sign)).replace("n't", "nt").replace("'", "")
    return [stem(word) for word in re.findall(r"\w+", plain)]


def stem(word: str) -> str:
    """Without the ending of a plural, a tense or an adverb, where at least three letters are left."""
    if word in NEGATIONS:
        return word
    ending = next((ending for ending in _ENDINGS if word.endswith(ending) and len(word) - len(ending) >= 3), "")
    return word[: len(word) - len(ending)] if ending else word


def is_reference(text: str, reference: Sequence[str]) -> bool:
    """Whether these are the words of a right answer, but for articles."""
    said = _content(text)
    return any(said == _content(each) for each in reference)


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in ("a", "an", "th", "the", "it", "is", "are")]


def mark(text: str, marking: Scheme) -> Marked:
    """Points for every idea that is said and nowhere denied; a wrong statement costs its own."""
    clauses = [words(clause) for clause in _CLAUSE.split(text[:LONGEST]) if clause and clause.strip()]
    told = {idea: _told(idea, clauses) for idea in (*marking.ideas, *marking.wrong)}
    found, denied, missing = (
        [idea for idea in marking.ideas if told[idea] == how] for how in ("said", "denied", "missing")
    )  # fmt: skip
    wrong = [idea for idea in marking.wrong if told[idea] == "said"]
    points = sum(idea.points for idea in found) - sum(idea.points for idea in wrong)
    named = [[idea.any_of[0] for idea in ideas] for ideas in (found, denied, missing, wrong)]
    return Marked(max(0.0, points), *named)


def _told(idea: Idea, clauses: list[list[str]]) -> str:
    """ "denied" wins: to say a thing and its opposite is not to say it."""
    how = "missing"
    for way in map(words, idea.any_of):
        for clause in clauses:
            for place in _places(clause, way):
                if not NEGATIONS & set(way) and NEGATIONS & set(clause[max(0, place - BEFORE) : place]):
                    return "denied"
                how = "said"
    return how


def _places(clause: list[str], way: list[str]) -> list[int]:
    return [place for place in range(len(clause) - len(way) + 1) if clause[place : place + len(way)] == way]
