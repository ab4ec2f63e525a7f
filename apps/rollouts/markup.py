"""Model output to HTML: the only function that does so. What a model says is hostile until it has passed here.

CommonMark with raw HTML off, then an allow-list of harmless elements; images are not shown (their address is a way
out for data), and links lead only to http(s) addresses whose host is printed beside them.
"""

import re
from urllib.parse import SplitResult, urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

LONGEST = 200_000  # characters rendered as markdown; beyond that it is shown as plain text
DEEPEST = 40  # nested quotes and lists; a parser bomb is cut there
TAGS = {
    "p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "a",
}  # fmt: skip
ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "*": set()}  # *: without it every element might carry title and lang
LINK = re.compile(r'<a href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
# Between these a star multiplies, and two take to a power: CommonMark would read 4*9*3 as 493, the 9 in italics.
TIMES = re.compile(r"(?<=[\w)\]])\*(?=[\w(\[])|(?:(?<=\d)\*\*(?=[\w(\[])|(?<=[\w)\]])\*\*(?=\d))", re.ASCII)


def _times(state: StateInline, silent: bool) -> bool:
    """A star between factors stands for itself."""
    found = TIMES.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.pending += found.group()
    state.pos = found.end()
    return True


_parser = (
    MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": DEEPEST})
    .enable(["table", "strikethrough"])
    .disable("image")
)
_parser.inline.ruler.before("emphasis", "times", _times)


def markup(text: str) -> SafeString:
    """Safe HTML of a model's text; it never raises."""
    if len(text) > LONGEST:
        return mark_safe(f"<pre>{escape(text)}</pre>")
    clean = nh3.clean(
        _parser.render(text),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(LINK.sub(_link, clean))


def _link(found: re.Match) -> str:
    """A link with its host beside it; anything but an absolute http(s) address is only its words."""
    address, attributes, words = found.groups()
    parts = _split(address)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return words
    return f'<a href="{address}"{attributes} target="_blank">{words}</a> <span class="host">({escape(parts.hostname)})</span>'


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None
