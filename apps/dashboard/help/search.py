"""Search in the headings and the text of the documentation."""

import re
from dataclasses import dataclass
from functools import cache

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.help.glossary import terms
from apps.dashboard.help.library import Page, read_help_pages
from apps.dashboard.help.rendering import GLOSSARY, term_anchor
from apps.dashboard.help.sections import Section, split_sections

MAX_RESULTS = 30
LINE_SHOWN = 220  # characters of the matching line
# What a word is worth where it stands; a page's own title counts most, and a term of the glossary
# that is the whole query comes first.
IN_PAGE_TITLE, IN_HEADING, IN_TEXT = 8, 5, 1
IS_TERM = 100


@dataclass(frozen=True)
class Entry:
    """One section in the index, with its words in small letters."""

    page: Page
    section: Section
    heading: str
    text: str
    is_first: bool
    is_term: bool = False


@dataclass(frozen=True)
class SearchHit:
    """One section that a search has found, with the line that matches best."""

    page: Page
    title: str
    address: str
    line: SafeString


@cache
def index() -> tuple[Entry, ...]:
    """Build the index of all pages once per process; it takes some hundredths of a second."""
    entries = []
    for page in read_help_pages().values():
        for number, section in enumerate(split_sections(page.text())):
            text = "\n".join(section.lines).lower()
            entries.append(Entry(page, section, section.title.lower(), text, number == 0))
    glossary = read_help_pages()[GLOSSARY]
    for term, meaning in terms().items():
        section = Section(term, term_anchor(term), [meaning])
        entries.append(Entry(glossary, section, term.lower(), meaning.lower(), False, True))
    return tuple(entries)


def search_help(query: str) -> list[SearchHit]:
    """Return the sections that have all words of the query, the best ones first."""
    words = query.lower().split()
    if not words:
        return []
    scored = [(_score(entry, words), entry) for entry in index()]
    matching = [pair for pair in scored if pair[0]]
    matching.sort(key=lambda pair: -pair[0])
    return [_build_result(entry, words) for _, entry in matching[:MAX_RESULTS]]


def _score(entry: Entry, words: list[str]) -> int:
    """Return 0 unless each word is in the section or its heading."""
    total = IS_TERM if entry.is_term and entry.heading == " ".join(words) else 0
    for word in words:
        worth = 0
        if word in entry.heading:
            worth = IN_PAGE_TITLE if entry.is_first else IN_HEADING
        elif word in entry.text:
            worth = IN_TEXT
        if not worth:
            return 0
        total += worth
    return total


def _build_result(entry: Entry, words: list[str]) -> SearchHit:
    section = entry.section
    lines = section.lines or [section.title]
    best = max(lines, key=lambda line: sum(word in line.lower() for word in words))
    anchor = "" if entry.is_first else f"#{section.anchor}"
    return SearchHit(
        entry.page, section.title, entry.page.address + anchor, _mark_matches(best, words)
    )


def _mark_matches(line: str, words: list[str]) -> SafeString:
    """Return the part of a line around its first match, with all matches marked."""
    pattern = re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE)
    first = pattern.search(line)
    begin = max(0, first.start() - LINE_SHOWN // 2) if first else 0
    excerpt = line[begin : begin + LINE_SHOWN]
    parts = []
    last = 0
    for match in pattern.finditer(excerpt):
        parts.append(format_html("{}<mark>{}</mark>", excerpt[last : match.start()], match.group()))
        last = match.end()
    before = "… " if begin else ""
    after = " …" if begin + LINE_SHOWN < len(line) else ""
    return format_html("{}{}{}{}", before, mark_safe("".join(parts)), excerpt[last:], after)
