#!/usr/bin/env python3
"""Check every relative link of the documentation. Standard library only.

It prints the file and line of each broken one. It checks:

- links, images and HTML attributes in every *.md file of the repository: the file must exist, and
  the anchor must be a heading or `<a id>` of the page, by GitHub's rules;
- paths under docs/ in code, templates and configuration, and their anchors;
- paths of source files in the text of pages.

Addresses with a scheme (https:, mailto:) are not fetched. The exit status is 1 if a link is broken.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
# Folders that a build or a run makes, and files of others
SKIPPED = frozenset(
    ["var", "staticfiles", "vendor", "node_modules", "build", "dist", "htmlcov", "__pycache__"]
)
HIDDEN_BUT_OURS = frozenset((".ci", ".github"))
MENTIONING = frozenset(
    [".py", ".html", ".js", ".css", ".txt", ".toml", ".yaml", ".yml", ".sh", ".in", ".md", ".curl"]
)
MENTIONING_NAMES = frozenset(("Dockerfile", "Makefile", "run", "setup"))
# The changelog names files that earlier releases had; tests invent names
NOT_MENTIONING = ("CHANGELOG.md", "tests")

FENCE = re.compile(r"^ {0,3}(?:> ?)*\s*(`{3,}|~{3,})")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
UNDERLINE = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$")
NAMED_ANCHOR = re.compile(r"""<\w+\b[^>]*?\b(?:id|name)=["']([^"']+)["']""")
INLINE_LINK = re.compile(r"""\]\(\s*<?((?:[^\s()<>]|\([^\s()]*\))*)>?(?:\s+["'(][^)]*)?\s*\)""")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?")
ATTRIBUTE = re.compile(r"""<(?:a|img|source)\b[^>]*?\b(?:href|src)=["']([^"']*)["']""")
MENTION = re.compile(r"(?<![\w/.:-])(docs/[\w/.-]*\w\.(?:md|svg|png|yaml)\b)(#[\w-]+)?")
SOURCE = re.compile(
    r"(?<![\w/.:-])((?:apps|bench|clients|docs|examples|rftweb|scripts|static|templates|tests"
    r"|workers)"
    r"/[\w/.-]*\w\.(?:css|html|js|json|md|py|sh|svg|png|txt|yaml)\b)(#[\w-]+)?"
)
SCHEME = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


class Link(NamedTuple):
    file: Path
    line: int
    target: str


def main() -> int:
    files = sorted(list_files(ROOT))
    pages = [file for file in files if file.suffix == ".md"]
    links = [link for page in pages for link in find_links(page)]
    mentions = [mention for file in files if is_mentioning(file) for mention in find_mentions(file)]
    broken = [(link, explain(link, link.file.parent)) for link in links]
    broken += [(mention, explain(mention, ROOT)) for mention in mentions]
    broken = [(link, reason) for link, reason in broken if reason]
    for link, reason in broken:
        print(f"{link.file.relative_to(ROOT)}:{link.line}: {link.target}: {reason}")
    count = f"{len(links)} links in {len(pages)} pages, {len(mentions)} paths"
    print(f"{count}: {len(broken) or 'none'} broken")
    return 1 if broken else 0


def list_files(folder: Path) -> Iterator[Path]:
    """Walk the repository's own files, with or without git."""
    for entry in os.scandir(folder):
        hidden = entry.name.startswith(".") and entry.name not in HIDDEN_BUT_OURS
        if hidden or entry.name in SKIPPED:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from list_files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def is_mentioning(file: Path) -> bool:
    if file.relative_to(ROOT).parts[0] in NOT_MENTIONING:
        return False
    return file.suffix in MENTIONING or (not file.suffix and file.name in MENTIONING_NAMES)


def explain(link: Link, base: Path) -> str:
    """Say what is wrong with a link, or return an empty string."""
    path, _, anchor = link.target.partition("#")
    target = link.file
    if path:
        target = Path(os.path.normpath(base / unquote(path.partition("?")[0])))
        if not target.is_relative_to(ROOT):
            return "leads out of the repository"
        if not has_exact_name(target):
            return "no such file"
    if anchor and target.suffix == ".md" and unquote(anchor) not in read_anchors(target):
        return f"no such heading in {target.relative_to(ROOT)}"
    return ""


@cache
def has_exact_name(path: Path) -> bool:
    """Look a file up as Linux does, with upper and lower case, also where the disk ignores case."""
    if path == ROOT:
        return True
    return path.name in names_in(path.parent) and has_exact_name(path.parent)


@cache
def names_in(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def find_links(page: Path) -> Iterator[Link]:
    for number, line in prose_lines(page):
        masked = CODE.sub(lambda code: " " * len(code[0]), line)
        for pattern in (INLINE_LINK, REFERENCE, ATTRIBUTE):
            for match in pattern.finditer(masked):
                target = unescape(match[1])
                if target and not SCHEME.match(target):
                    yield Link(page, number, target)


def find_mentions(file: Path) -> Iterator[Link]:
    """Find paths in text that is not a link, fenced blocks of pages included."""
    text = file.read_text(encoding="utf-8", errors="replace")
    is_page = file.suffix == ".md"
    if not is_page and "docs/" not in text:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if is_page:
            for pattern in (INLINE_LINK, REFERENCE, ATTRIBUTE):
                line = pattern.sub("", line)
        for match in (SOURCE if is_page else MENTION).finditer(line):
            yield Link(file, number, match[0])


def prose_lines(page: Path) -> Iterator[tuple[int, str]]:
    """Number the lines of a page that are outside fenced code blocks."""
    fence = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if not fence and match:
            fence = match[1]
        elif fence and match and match[1].startswith(fence) and not line[match.end() :].strip():
            fence = ""
        elif not fence:
            yield number, line


@cache
def read_anchors(page: Path) -> frozenset[str]:
    """Collect the anchors that GitHub gives a page: its headings and its own `<a id>`."""
    anchors: set[str] = set()
    uses: Counter[str] = Counter()
    above = ""
    for _, line in prose_lines(page):
        anchors.update(NAMED_ANCHOR.findall(line))
        heading = HEADING.match(line)
        title = heading[1] if heading else above if UNDERLINE.match(line) else ""
        if title:
            anchor = github_anchor(title)
            while (unique := f"{anchor}-{uses[anchor]}" if uses[anchor] else anchor) in anchors:
                uses[anchor] += 1
            uses[anchor] += 1
            anchors.add(unique)
        above = "" if heading or line.lstrip().startswith(("|", ">", "- ", "* ")) else line.strip()
    return frozenset(anchors)


def github_anchor(title: str) -> str:
    """Turn a heading into its anchor: lower case, no punctuation, spaces as hyphens."""
    title = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", title)
    title = re.sub(r"<[^>]+>", "", title)
    title = re.sub(r"(?<!\w)(\*\*|__|\*|_)(\S(?:.*?\S)?)\1(?!\w)", r"\2", title)
    title = re.sub(r"[^\w\- ]", "", unescape(title).strip().lower())
    return title.replace(" ", "-")


if __name__ == "__main__":
    sys.exit(main())
