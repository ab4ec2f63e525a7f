"""Words in what rollouts say, found by an index: of one run, part after part of its ids, so that no look reads a whole large run.

The index (migration `find_rollouts_by_words`) holds, of each ended rollout, the words of its text as PostgreSQL's `simple`
configuration parts them (folded to small letters, nothing stemmed, no word left out), and two that no text can hold: its run, and
which part of all ids it is of. A query always asks for both, so even a word that a million other rollouts say costs what one part
of this run costs.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import BooleanField, F, Func, Q

PART = 12  # bits: 4,096 ids in a part
LONGEST = 100_000  # characters of a text that are searched: what a tsvector holds, whatever they are
MOST_WORDS = 20
SHORTEST_BEGINNING = 3  # letters before a *
# As the index spells it; another spelling would not find by it.
WORDS = (
    f"(to_tsvector('simple', left({{text}}, {LONGEST})) || array_to_tsvector("
    f"ARRAY[' run ' || {{run}}::text, ' part ' || ({{pk}} >> {PART})::text]))"
)
TERM = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')


class NoWords(ValueError):
    """There is nothing in it that could be found; the message says what is."""


@dataclass(frozen=True)
class Term:
    """One thing to be found: a word, the beginning of one, or several in a row; or what must not be there."""

    text: str
    is_phrase: bool = False
    is_beginning: bool = False
    is_absent: bool = False

    @property
    def sql(self) -> str:
        call = "to_tsquery" if self.is_beginning else "plainto_tsquery"
        return f"{'!! ' if self.is_absent else ''}{call}('simple', %s)"

    @property
    def given(self) -> str:
        return f"'{self.text.replace(chr(92), chr(92) * 2).replace(chr(39), chr(39) * 2)}':*" if self.is_beginning else self.text


@dataclass(frozen=True)
class Sought:
    """Words as a person typed them, and as the index is asked for them."""

    terms: Sequence[Term]
    query: str

    @classmethod
    def read(cls, typed: str) -> "Sought":
        """All must be there: `word`, `begin*`, `"these words in a row"`; but not what has a - before it. Raises NoWords."""
        terms = [_term(*found) for found in TERM.findall(typed)]
        terms = [one for one in terms if re.search(r"\w", one.text)]
        if len(terms) > MOST_WORDS:
            raise NoWords(f"asks for {len(terms)} words at once; {MOST_WORDS} are the most")
        if any(one.is_beginning and len(one.text) < SHORTEST_BEGINNING for one in terms):
            raise NoWords(f"needs {SHORTEST_BEGINNING} letters before a *")
        if any(one.is_phrase and one.is_absent for one in terms):
            raise NoWords("can leave out single words only: no index finds what is not said in a row")
        query = _asked(terms) if terms else ""
        if not query:
            raise NoWords("has no word that could be found; ask for these very characters instead")
        return cls(terms, query)

    def anywhere(self, run: int) -> str:
        """The query for a whole run, whatever that costs."""
        return f"({self.query}) & ' run {run}'"

    def within(self, run: int, parts: Iterable[int]) -> str:
        """The query for these parts of a run's ids."""
        either = " | ".join(f"' part {part}'" for part in parts)
        return f"{self.anywhere(run)} & ({either})"

    @property
    def phrases(self) -> list[Q]:
        """That the words stand in a row which must.

        The index finds texts that have them all. It keeps no places: asked for the row itself, the database would part each of
        those texts into words again, which costs ten times what this does.
        """
        rows = (re.findall(r"\w+", one.text) for one in self.terms if one.is_phrase)
        return [Q(text__iregex=r"\m" + r"\W+".join(words) + r"\M") for words in rows if len(words) > 1]

    @property
    def shape(self) -> re.Pattern | None:
        """What of a text is to be marked; None where all that is asked for must not be there."""
        shown = [_shape(one) for one in self.terms if not one.is_absent]
        return re.compile("|".join(shown), re.IGNORECASE) if shown else None


def _term(sign: str, phrase: str, word: str) -> Term:
    if phrase:
        return Term(phrase, is_phrase=True, is_absent=bool(sign))
    is_beginning = word.endswith("*")
    return Term(word.rstrip("*"), is_beginning=is_beginning, is_absent=bool(sign))


def _asked(terms: Sequence[Term]) -> str:
    """The terms as one tsquery; what PostgreSQL finds no word in asks for nothing."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ({' && '.join(one.sql for one in terms)})::text", [one.given for one in terms])
        return cursor.fetchone()[0]


def _shape(term: Term) -> str:
    words = r"\W+".join(re.escape(word) for word in re.findall(r"\w+", term.text))
    return rf"\b{words}\w*" if term.is_beginning else rf"\b{words}\b"


class Says(Func):
    """Whether a rollout says what this query asks for."""

    output_field = BooleanField()

    def __init__(self, query: str) -> None:
        super().__init__(F("text"), F("run_id"), F("id"))
        self.query = query

    def as_sql(self, compiler, connection, **options: object) -> tuple[str, list]:
        (text, _), (run, _), (pk, _) = (compiler.compile(one) for one in self.source_expressions)
        return f"{WORDS.format(text=text, run=run, pk=pk)} @@ %s::tsquery", [self.query]


def part_of(pk: int) -> int:
    return pk >> PART


def first_of(part: int) -> int:
    """The least id in a part."""
    return part << PART


def last_of(part: int) -> int:
    return first_of(part + 1) - 1


def marked(text: str, shape: re.Pattern | None, room: int) -> list[tuple[str, bool]]:
    """About `room` characters of the text around the first match, as (stretch, whether it matches)."""
    first = shape.search(text) if shape else None
    start = max(0, first.start() - room // 3) if first and first.end() > room else 0
    shown, pieces, at = text[start : start + room], [], 0
    for met in shape.finditer(shown) if shape else ():
        pieces += [(shown[at : met.start()], False), (met.group(), True)]
        at = met.end()
    pieces = [("… " if start else "", False), *pieces, (shown[at:], False)]
    return [(piece, is_match) for piece, is_match in pieces if piece]
