"""Full-text search of a run's rollouts by an index, one part of the id range at a time.

The index (`rollouts_by_words`) holds, for each ended rollout, the words of its text as PostgreSQL's
`simple` configuration splits them (lower case, no stemming, no stop words), and two words that no
text can hold: its run, and the part of the id range that it is in. A query always asks for both, so
even a word that occurs in a million other rollouts costs what one part of this run costs.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, Q
from django.db.models.sql.compiler import SQLCompiler

PART = 12  # bits: 4,096 ids in a part
# Characters of a text that are searched: what a tsvector holds, whatever they are.
MAX_TEXT_LENGTH = 100_000
MAX_WORDS = 20
MIN_PREFIX_LENGTH = 3  # letters before a *
# Must equal the index's expression, or the index is not used.
WORDS = (
    f"(to_tsvector('simple', left({{text}}, {MAX_TEXT_LENGTH})) || array_to_tsvector("
    f"ARRAY[' run ' || {{run}}::text, ' part ' || ({{pk}} >> {PART})::text]))"
)
TERM = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')


class NoWords(ValueError):
    """An error raised when a query holds nothing to search for.

    The message says what it may hold.
    """


@dataclass(frozen=True)
class Term:
    """One search term: a word, a prefix, a phrase, or something that must be absent."""

    text: str
    is_phrase: bool = False
    is_beginning: bool = False
    is_absent: bool = False

    @property
    def sql(self) -> str:
        call = "to_tsquery" if self.is_beginning else "plainto_tsquery"
        return f"{'!! ' if self.is_absent else ''}{call}('simple', %s)"

    @property
    def query_text(self) -> str:
        return (
            f"'{self.text.replace(chr(92), chr(92) * 2).replace(chr(39), chr(39) * 2)}':*"
            if self.is_beginning
            else self.text
        )


@dataclass(frozen=True)
class ParsedQuery:
    """A parsed search query, as typed and as the index is asked."""

    terms: Sequence[Term]
    query: str

    @classmethod
    def read(cls, typed: str) -> "ParsedQuery":
        """Parse a query: `word`, `begin*`, `"a phrase"`, each excluded by a leading -.

        All terms must match. Raises NoWords.
        """
        terms = [_term(*groups) for groups in TERM.findall(typed)]
        terms = [term for term in terms if re.search(r"\w", term.text)]
        if len(terms) > MAX_WORDS:
            raise NoWords(f"has {len(terms)} words; the maximum is {MAX_WORDS}")
        if any(term.is_beginning and len(term.text) < MIN_PREFIX_LENGTH for term in terms):
            raise NoWords(f"needs at least {MIN_PREFIX_LENGTH} letters before a *")
        if any(term.is_phrase and term.is_absent for term in terms):
            raise NoWords("can exclude only single words, not phrases")
        query = _as_query(terms) if terms else ""
        if not query:
            raise NoWords("contains no searchable word; search for these exact characters instead")
        return cls(terms, query)

    def anywhere(self, run: int) -> str:
        """Return the query for a whole run, at whatever cost."""
        return f"({self.query}) & ' run {run}'"

    def within(self, run: int, parts: Iterable[int]) -> str:
        """Return the query for these parts of a run's ids."""
        either = " | ".join(f"' part {part}'" for part in parts)
        return f"{self.anywhere(run)} & ({either})"

    @property
    def phrases(self) -> list[Q]:
        """Return conditions that the words of each phrase are adjacent.

        The index finds texts that hold all the words. It stores no positions: for an adjacency
        query the database would parse each of those texts again, which costs ten times as much as
        this.
        """
        rows = (re.findall(r"\w+", term.text) for term in self.terms if term.is_phrase)
        return [
            Q(text__iregex=r"\m" + r"\W+".join(words) + r"\M") for words in rows if len(words) > 1
        ]

    @property
    def shape(self) -> re.Pattern | None:
        """Return the pattern of what to highlight in a text; None when all terms must be absent."""
        patterns = [_shape(term) for term in self.terms if not term.is_absent]
        return re.compile("|".join(patterns), re.IGNORECASE) if patterns else None


def _term(sign: str, phrase: str, word: str) -> Term:
    if phrase:
        return Term(phrase, is_phrase=True, is_absent=bool(sign))
    is_beginning = word.endswith("*")
    return Term(word.rstrip("*"), is_beginning=is_beginning, is_absent=bool(sign))


def _as_query(terms: Sequence[Term]) -> str:
    """Return the terms as one tsquery.

    A term in which PostgreSQL finds no word asks for nothing.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT ({' && '.join(term.sql for term in terms)})::text",
            [term.query_text for term in terms],
        )
        return cursor.fetchone()[0]


def _shape(term: Term) -> str:
    words = r"\W+".join(re.escape(word) for word in re.findall(r"\w+", term.text))
    return rf"\b{words}\w*" if term.is_beginning else rf"\b{words}\b"


class MatchesQuery(Func):
    """A condition that a rollout's text matches this query."""

    output_field = BooleanField()

    def __init__(self, query: str) -> None:
        super().__init__(F("text"), F("run_id"), F("id"))
        self.query = query

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *_: Any, **__: Any
    ) -> tuple[str, tuple[Any, ...]]:
        text, run, pk = (compiler.compile(column)[0] for column in self.source_expressions)
        vector = WORDS.format(text=text, run=run, pk=pk)
        return f"{vector} @@ %s::tsquery", (self.query,)


def search_part(pk: int) -> int:
    return pk >> PART


def part_start(part: int) -> int:
    """Return the smallest id of a part."""
    return part << PART


def part_end(part: int) -> int:
    return part_start(part + 1) - 1


def mark_matches(text: str, shape: re.Pattern | None, room: int) -> list[tuple[str, bool]]:
    """Return about `room` characters around the first match, as (stretch, whether it matches)."""
    first = shape.search(text) if shape else None
    start = max(0, first.start() - room // 3) if first and first.end() > room else 0
    excerpt = text[start : start + room]
    pieces = []
    at = 0
    for met in shape.finditer(excerpt) if shape else ():
        pieces += [(excerpt[at : met.start()], False), (met.group(), True)]
        at = met.end()
    pieces = [("… " if start else "", False), *pieces, (excerpt[at:], False)]
    return [(piece, is_match) for piece, is_match in pieces if piece]
