"""Mark short answers by a scheme of key ideas, each stated in one of several ways and not denied.

Words are compared by their stems; articles and a word or two may stand between them, and a passive
sentence has them in the other order. A list of everything there is says nothing. What cannot be
decided so, a paraphrase, is said to be undecided.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.rewards import corrections
from apps.rewards.school.words import (
    ALTERNATIVES,
    BEFORE,
    FILLERS,
    MAX_TEXT_LENGTH,
    MAX_WORDS_BETWEEN,
    NEGATIONS,
    SEPARATOR,
    follows,
    stem_words,
)

MAX_IDEAS = 50
# Denials of a whole statement, however far before it: "it would be wrong to say that …".
OF_STATEMENTS = frozenset({"wrong", "false", "incorrect", "untrue"})
PASSIVE = frozenset({"is", "are", "was", "wer", "were", "been", "being", "be", "by", "get", "got"})
_MOST_PART_WORDS = 4  # of an item of a list
# A run of blanks within a line is read from its first one only, or from the comma in front of it.
_CLAUSE = re.compile(
    r"[.;:!?\n。；：！？]|(?:,|(?<!,)(?<![^\S\n]))[^\S\n]++(?:but|however|although|whereas)\s++"
    r"|,[^\S\n]++(?:and\s)?(?:it|they|he|she|we|this|these)\s++",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Idea:
    """Key idea of a marking scheme; it is worth `points` if one of the ways occurs."""

    any_of: tuple[str, ...]
    points: float


@dataclass(frozen=True)
class Scheme:
    """Marking scheme; `reference`: whole right answers.

    `wrong`: statements that cost one idea's worth each.
    """

    ideas: tuple[Idea, ...]
    reference: tuple[str, ...]
    wrong: tuple[Idea, ...] = ()

    @property
    def total(self) -> float:
        return sum(idea.points for idea in self.ideas)


@dataclass(frozen=True)
class MarkingResult:
    """Result of marking: ideas `found`, `denied`, `missing` and `wrong`, and the points."""

    points: float
    found: list[str]
    denied: list[str]
    missing: list[str]
    wrong: list[str]


def scheme(answer: Mapping[str, Any]) -> Scheme | None:
    """Read a marking scheme from `ideas`, `reference` (or `value`) and `wrong`.

    Return None if there is nothing to mark by.
    """
    reference: Any = next(
        (answer[name] for name in ("reference", "value", "answer") if answer.get(name)), []
    )
    texts = [reference] if isinstance(reference, str) else reference
    ideas = _ideas(answer.get("ideas", []))
    wrong = _ideas(answer.get("wrong", []))
    if (
        ideas is None
        or wrong is None
        or not isinstance(texts, list)
        or not all(isinstance(text, str) for text in texts)
    ):
        return None
    marking = Scheme(ideas, tuple(text for text in texts if stem_words(text)), wrong)
    return marking if marking.ideas or marking.reference else None


def _ideas(value: Any) -> tuple[Idea, ...] | None:
    if not isinstance(value, list) or len(value) > MAX_IDEAS:
        return None
    ideas = [idea for entry in value if (idea := _idea(entry)) is not None]
    return None if len(ideas) < len(value) else tuple(ideas)


def _idea(value: Any) -> Idea | None:
    if isinstance(value, str):
        value = {"any_of": [value]}
    if not isinstance(value, dict):
        return None
    ways = value.get("any_of", value.get("idea"))
    points = value.get("points", 1)
    ways = [ways] if isinstance(ways, str) else ways
    is_number = (
        isinstance(points, int | float) and not isinstance(points, bool) and 0 < points < 1e6
    )
    if (
        not isinstance(ways, list)
        or not ways
        or not all(isinstance(way, str) and stem_words(way) for way in ways)
        or not is_number
    ):
        return None
    return Idea(tuple(ways), float(points))


def mark_ideas(text: str, marking: Scheme) -> MarkingResult:
    """Return points for every idea that is stated and nowhere denied.

    A wrong statement costs its own points. Ideas in a list of alternatives do not count as stated;
    if a list names everything there is, none is.
    """
    clauses = [
        _Clause(clause)
        for clause in _CLAUSE.split(corrections.without_corrected(text[:MAX_TEXT_LENGTH]))
        if clause and clause.strip()
    ]
    states = {idea: _idea_state(idea, clauses) for idea in (*marking.ideas, *marking.wrong)}
    if names_everything(text, marking):
        states |= {idea: "missing" for idea in marking.ideas if states[idea] == "said"}
    stated_ideas, denied_ideas, missing_ideas = (
        [idea for idea in marking.ideas if states[idea] == how]
        for how in ("said", "denied", "missing")
    )
    wrong_ideas = [idea for idea in marking.wrong if states[idea] == "said"]
    points = sum(idea.points for idea in stated_ideas) - sum(idea.points for idea in wrong_ideas)
    idea_names = [
        [idea.any_of[0] for idea in ideas]
        for ideas in (stated_ideas, denied_ideas, missing_ideas, wrong_ideas)
    ]
    return MarkingResult(max(0.0, points), *idea_names)


def names_everything(text: str, marking: Scheme) -> bool:
    """Tell whether the answer is a list of short parts that mostly match no idea of the scheme."""
    parts = [stem_words(part) for part in SEPARATOR.split(text[:MAX_TEXT_LENGTH])]
    short = [part for part in parts if part and len(part) <= _MOST_PART_WORDS]
    ways = [stem_words(way) for idea in (*marking.ideas, *marking.wrong) for way in idea.any_of]
    matched = sum(any(_places(part, way) for way in ways) for part in short)
    unmatched = len(short) - matched
    spoken = stem_words(text)
    is_bare = sum(word in FILLERS for word in spoken) <= len(spoken) // 10
    return (
        unmatched >= 3 and unmatched > matched
        if is_bare
        else unmatched >= 4 and unmatched >= 2 * matched
    )


class _Clause:
    """Stems of a clause; `has_alternatives`: it names several things, one of which may hold."""

    def __init__(self, text: str) -> None:
        self.stems = stem_words(text)
        self.alternatives = (
            [stem_words(part) for part in SEPARATOR.split(text) if stem_words(part)]
            if ALTERNATIVES.search(text)
            else []
        )


def _idea_state(idea: Idea, clauses: list[_Clause]) -> str:
    """Return whether an idea is stated, missing or denied; a denial outweighs a statement."""
    how = "missing"
    ways = [stem_words(way) for way in idea.any_of]
    for way in ways:
        for clause in clauses:
            for place in _places(clause.stems, way):
                if not NEGATIONS & set(way) and _is_denied(clause.stems, way, place):
                    return "denied"
                if not _is_one_of_several(clause, ways):
                    how = "said"
    return how


def _is_denied(stems: list[str], way: list[str], place: int) -> bool:
    """Tell whether a "not" stands before an idea, or within it: "oxygen is not produced"."""
    before = stems[max(0, place - BEFORE) : place]
    places = [stems.index(word, place) for word in way if word in stems[place:]]
    within = set(stems[place : max(places) + 1]) - set(way)
    return bool(NEGATIONS & (within | set(before)) or OF_STATEMENTS & set(stems[:place]))


def _is_one_of_several(clause: _Clause, ways: list[list[str]]) -> bool:
    """Tell whether the clause offers the idea only as one of several alternatives."""
    other_parts = [
        part for part in clause.alternatives if not any(_places(part, way) for way in ways)
    ]
    return len(clause.alternatives) > 1 and bool(other_parts)


def _places(clause: list[str], way: list[str]) -> list[int]:
    """Find where the words of an idea begin: in order, or all of them in a passive clause."""
    starts = [place for place in range(len(clause)) if follows(clause, place, way)]
    if starts or len(way) < 2 or not PASSIVE & set(clause):
        return starts
    places = [clause.index(word) for word in way if word in clause]
    is_near = (
        len(places) == len(way) and max(places) - min(places) <= len(way) + MAX_WORDS_BETWEEN + 1
    )
    return [min(places)] if is_near else []
