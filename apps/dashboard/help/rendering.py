"""Pages of the documentation as HTML: safe tags, anchors at headings, links within the site."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from apps.dashboard.help.library import Page, help_address, read_help_pages
from apps.dashboard.help.sections import Anchors, strip_markdown
from apps.rollouts.code_colors import NotColored, colored
from apps.rollouts.markup import ATTRIBUTES as ATTRIBUTES_OF_REPLIES
from apps.rollouts.markup import TAGS as TAGS_OF_REPLIES

TAGS = TAGS_OF_REPLIES | {"img", "kbd", "span", "div"}
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
ATTRIBUTES = ATTRIBUTES_OF_REPLIES | {
    **{heading: {"id"} for heading in HEADINGS},
    "a": {"href", "id", "class", "aria-label"},
    "div": {"class", "tabindex", "role", "aria-label"},
    "img": {"src", "alt", "loading"},
    "pre": {"tabindex"},
    "span": {"class"},
    "td": {"id"},
}
DEEPEST_IN_CONTENTS = 3
GLOSSARY = "glossary"


@dataclass(frozen=True)
class Heading:
    level: int
    title: str
    anchor: str


@dataclass(frozen=True)
class Rendered:
    """A page's HTML, without its title, and the headings below it."""

    title: str
    html: SafeString
    headings: tuple[Heading, ...]


class _Renderer(RendererHTML):
    """A renderer that colors code and lets wide tables and code scroll by keyboard."""

    def fence(
        self, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType
    ) -> str:
        code, info = tokens[index].content, tokens[index].info
        try:
            html = colored(code, info)
        except NotColored:
            html = escape(code)
        return f'<pre tabindex="0"><code>{html}</code></pre>\n'

    def table_open(self, *_args: object) -> str:
        return '<div class="tablebox" tabindex="0" role="region" aria-label="Table"><table>\n'

    def table_close(self, *_args: object) -> str:
        return "</table></div>\n"


_parser = MarkdownIt("commonmark", {"html": True}, renderer_cls=_Renderer).enable("table")


@cache
def render_help_page(name: str) -> Rendered:
    """Return the page with this name as HTML. Raises KeyError if there is none."""
    page = read_help_pages()[name]
    tokens = _parser.parse(page.text())
    headings = _anchor_headings(tokens)
    for token in tokens:
        _rewrite_links(token.children or [], page)
    if name == GLOSSARY:
        _anchor_terms(tokens)
    if tokens[0].tag == "h1":
        tokens = tokens[3:]
    html = _parser.renderer.render(tokens, _parser.options, {})
    clean = nh3.clean(html, tags=TAGS, attributes=ATTRIBUTES, link_rel=None)
    contents = tuple(heading for heading in headings if 1 < heading.level <= DEEPEST_IN_CONTENTS)
    title = headings[0].title if headings else page.title
    return Rendered(title, mark_safe(clean), contents)


def _anchor_headings(tokens: list[Token]) -> list[Heading]:
    """Give the headings their ids and return them."""
    anchors = Anchors()
    headings = []
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        anchor = anchors.next(inline.content)
        opening.attrSet("id", anchor)
        headings.append(Heading(int(opening.tag[1]), strip_markdown(inline.content), anchor))
    return headings


def _anchor_terms(tokens: list[Token]) -> None:
    """Give the first cell of each row of the glossary the anchor of its term."""
    for before, opening, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if before.type == "tr_open" and opening.type == "td_open":
            opening.attrSet("id", term_anchor(inline.content))


def term_anchor(term: str) -> str:
    return "term-" + Anchors().next(term)


def _rewrite_links(tokens: list[Token], page: Page) -> None:
    """Point links and pictures to addresses of the site; targets without one become plain text."""
    is_dropped = False
    for token in tokens:
        if token.type == "link_open":
            address = help_address(str(token.attrGet("href") or ""), page)
            is_dropped = address is None
            token.attrSet("href", address or "")
        if token.type == "image":
            token.attrSet("src", help_address(str(token.attrGet("src") or ""), page) or "")
            token.attrSet("loading", "lazy")
        if is_dropped and token.type in ("link_open", "link_close"):
            is_dropped = token.type == "link_open"
            token.type, token.tag, token.content = "text", "", ""
