"""The documentation in docs/, as pages of the site.

docs/README.md is the table of contents: each of its second-level headings is a group of the
navigation, and each link below it is a page of the group.
"""

import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from django.conf import settings
from django.urls import reverse

from apps.dashboard.help.sections import strip_markdown

DOCS = settings.FILES / "docs"
CONTENTS = "README.md"
ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#]+\.md)(?:#([\w-]+))?\)")
# Files that pages show or offer, by the type under which they are sent.
FILE_TYPES = {".png": "image/png", ".svg": "image/svg+xml", ".yaml": "application/yaml"}


@dataclass(frozen=True)
class Page:
    """One Markdown file, or a section of one for the navigation.

    `name` is its part of the address, empty for the contents.
    """

    name: str
    file: str
    title: str
    group: str
    anchor: str = ""

    @property
    def address(self) -> str:
        page = reverse("help-page", args=[self.name]) if self.name else reverse("help")
        return f"{page}#{self.anchor}" if self.anchor else page

    def text(self) -> str:
        return (DOCS / self.file).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Group:
    title: str
    pages: tuple[Page, ...]


@cache
def read_help_groups() -> tuple[Group, ...]:
    """Read the groups of the navigation and their pages, in the order of the contents."""
    groups: list[tuple[str, list[Page]]] = []
    for line in (DOCS / CONTENTS).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            groups.append((line.removeprefix("## "), []))
        elif groups and (entry := ENTRY.match(line)):
            title, file, anchor = entry.groups(default="")
            groups[-1][1].append(Page(help_page_name(file), file, title, groups[-1][0], anchor))
    return tuple(Group(title, tuple(pages)) for title, pages in groups)


@cache
def read_help_pages() -> dict[str, Page]:
    """Return every page by its name: first those of the contents, then all others."""
    listed = [page for group in read_help_groups() for page in group.pages if not page.anchor]
    pages = {"": Page("", CONTENTS, "Help", "")} | {page.name: page for page in listed}
    for path in sorted(DOCS.rglob("*.md")):
        file = path.relative_to(DOCS).as_posix()
        if help_page_name(file) not in pages:
            pages[help_page_name(file)] = Page(help_page_name(file), file, read_title(path), "")
    return pages


@cache
def files() -> dict[str, Path]:
    """Return the pictures and other files of the documentation by their path within it."""
    return {
        path.relative_to(DOCS).as_posix(): path
        for path in sorted(DOCS.rglob("*"))
        if path.suffix in FILE_TYPES
    }


def help_page_name(file: str) -> str:
    """Turn `adr/README.md` into `adr`, and `people.md` into `people`."""
    return file.removesuffix(".md").removesuffix("README").rstrip("/")


def read_title(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return strip_markdown(first.removeprefix("# "))


def help_address(target: str, page: Page) -> str | None:
    """Return the address under /help/ of what a page links to.

    Addresses with a scheme and anchors of the same page stay as they are. A target outside of the
    documentation, such as a source file, has no address: None.
    """
    if target.startswith(("#", "https:", "http:", "mailto:")):
        return target
    path, _, anchor = target.partition("#")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(page.file), path))
    if file in files():
        return reverse("help-file", args=[file])
    linked = read_help_pages().get(help_page_name(file)) if file.endswith(".md") else None
    if linked is None:
        return None
    return linked.address + (f"#{quote(anchor)}" if anchor else "")
