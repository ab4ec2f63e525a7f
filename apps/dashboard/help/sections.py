"""Headings of Markdown pages: their anchors, and the text that stands under each."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: +#+)? *$")
FENCE = re.compile(r"^ {0,8}(`{3,}|~{3,})")
LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
TAG = re.compile(r"</?[a-z][^>]*>")
EMPHASIS = re.compile(r"(?<!\w)(\*\*|__|\*|_)(\S(?:.*?\S)?)\1(?!\w)")
TABLE_RULE = re.compile(r"^[\s|:-]*$")
LIST_MARK = re.compile(r"^\s*(?:> ?)*(?:[-*] |\d+\. )")
QUOTE_MARK = re.compile(r"^\s*(?:> ?)+")


class Anchors:
    """Give each heading of a page its anchor, as GitHub does."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def next(self, title: str) -> str:
        """Return the anchor of the next heading, given its Markdown."""
        name = re.sub(r"[^\w\- ]", "", strip_markdown(title).lower()).replace(" ", "-")
        self._uses[name] += 1
        repeated = self._uses[name] - 1
        return f"{name}-{repeated}" if repeated else name


@dataclass
class Section:
    """A heading, and the paragraphs, list items, rows and lines of code up to the next one."""

    title: str
    anchor: str
    lines: list[str] = field(default_factory=list)


def strip_markdown(text: str) -> str:
    """Return the words of a line of Markdown without its marks."""
    text = LINK.sub(r"\1", TAG.sub("", text))
    text = EMPHASIS.sub(r"\2", text)
    return text.replace("`", "").strip()


def split_sections(text: str) -> Iterator[Section]:
    """Divide a page into its sections. The first has the page's title and its introduction."""
    anchors = Anchors()
    section = Section("", "")
    is_code = is_new = False
    for line in text.splitlines():
        heading = None if is_code else HEADING.match(line)
        if FENCE.match(line):
            is_code = not is_code
            is_new = True
        elif heading:
            if section.title:
                yield section
            section = Section(strip_markdown(heading[2]), anchors.next(heading[2]))
            is_new = True
        elif is_code:
            section.lines += [line.strip()] if line.strip() else []
        else:
            is_new = _add(section.lines, line, is_new)
    if section.title:
        yield section


def _add(lines: list[str], line: str, is_new: bool) -> bool:
    """Add a line of text: to the paragraph before it, unless it begins a new one.

    Returns whether the next line begins a new one.
    """
    if TABLE_RULE.match(line):
        return True
    if line.startswith("|"):
        cells = [strip_markdown(cell) for cell in line.strip().strip("|").split("|")]
        lines.append(" · ".join(cell for cell in cells if cell))
        return True
    if is_new or LIST_MARK.match(line) or not lines:
        lines.append(strip_markdown(LIST_MARK.sub("", QUOTE_MARK.sub("", line))))
    else:
        lines[-1] += " " + strip_markdown(QUOTE_MARK.sub("", line))
    return False
