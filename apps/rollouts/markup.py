"""The only function that turns model output into HTML.

Model output is untrusted until it has passed here: it is rendered as CommonMark with raw HTML off,
then filtered by an allow-list of harmless elements. Images are not shown (their addresses can leak
data), and links lead only to http(s) addresses whose host is printed beside them.

Formulas and colored code are written by functions that escape every text themselves
(apps.rollouts.formulas, apps.rollouts.code_colors). They are put into the filtered HTML in place of
marks that a reply cannot contain.
"""

import re
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from apps.rollouts import formulas
from apps.rollouts.code_colors import NotColored, colored
from apps.rollouts.formulas import NoFormula, mathml

MAX_FORMULA_LENGTH = (
    200_000  # characters rendered as markdown; beyond that it is shown as plain text
)
MAX_DRAWN = 30_000  # characters of formulas and colored code; the rest is shown as it is written
DEEPEST = 40  # nested quotes and lists; limits parser bombs
TAGS = {
    "p",
    "br",
    "hr",
    "em",
    "strong",
    "s",
    "code",
    "pre",
    "blockquote",
    "ul",
    "ol",
    "li",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "a",
}
# The key * limits attributes of all elements: without it title and lang would be allowed.
ATTRIBUTES = {
    "a": {"href"},
    "ol": {"start"},
    "*": set(),
}
LINK = re.compile(r'<a href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
MARK = re.compile(r"(mark[0-9a-f]{32})-(\d+)-")  # what stands for a formula or code meanwhile
# Between these characters one star is a product and two are a power: CommonMark would render 4*9*3
# as 493, with the 9 in italics.
TIMES = re.compile(
    r"(?<=[\w)\]])\*(?=[\w(\[])|(?:(?<=\d)\*\*(?=[\w(\[])|(?<=[\w)\]])\*\*(?=\d))", re.ASCII
)

# Delimiters of formulas, and whether it stands in a line of its own; `$$` comes before `$`.
DELIMITERS = (("$$", "$$", True), ("$", "$", False), ("\\(", "\\)", False), ("\\[", "\\]", True))
ENVIRONMENT = re.compile(r"\\begin\{((?:equation|align|gather|eqnarray)\*?)\}")


def _times(state: StateInline, silent: bool) -> bool:
    """Render a star between factors as a plain character."""
    match = TIMES.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.pending += match.group()
    state.pos = match.end()
    return True


def _formula(state: StateInline, silent: bool) -> bool:
    """Read a formula within a paragraph."""
    if state.src[state.pos] not in "$\\":
        return False
    for opening, closing, is_block in DELIMITERS:
        if state.src.startswith(opening, state.pos):
            begin = state.pos + len(opening)
            end = state.src.find(closing, begin, begin + formulas.MAX_FORMULA_LENGTH)
            if end <= begin or (opening == "$" and not _is_in_dollars(state.src, begin, end)):
                continue
            if not silent:
                _push(state, state.src[begin:end], opening, closing, is_block)
            state.pos = end + len(closing)
            return True
    return False


def _is_in_dollars(text: str, begin: int, end: int) -> bool:
    """Tell whether the text between two dollar signs is a formula, as $5 is a price.

    A formula begins and ends with a character that is no space, and no digit follows its end.
    """
    inside = text[begin:end]
    return (
        inside.strip() == inside and "\n\n" not in inside and not text[end + 1 : end + 2].isdigit()
    )


def _formula_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Read a formula of one or more whole lines, so that a line with a minus is no list."""
    start = state.bMarks[first] + state.tShift[first]
    environment = ENVIRONMENT.match(state.src, start, state.eMarks[first])
    if environment:
        opening, closing = "", f"\\end{{{environment[1]}}}"
    elif state.src.startswith(("$$", "\\["), start):
        opening = state.src[start : start + 2]
        closing = "$$" if opening == "$$" else "\\]"
    else:
        return False
    begin = start + len(opening)
    limit = min(state.eMarks[last - 1], begin + formulas.MAX_FORMULA_LENGTH)
    end = state.src.find(closing, begin, limit)
    if end <= begin:
        return False
    line = next(number for number in range(first, last) if end <= state.eMarks[number])
    if state.src[end + len(closing) : state.eMarks[line]].strip(" .,"):
        return False  # text follows in the same line: the formula is within a paragraph
    if not silent:
        # Without the marks of a quote or the indent of a list that the lines stand in.
        lines = state.getLines(first, line + 1, state.blkIndent, False)
        inside = lines.strip().rstrip(" .,").removeprefix(opening)
        content = inside.removesuffix(closing) if opening else inside
        _push(state, content, opening, closing if opening else "", is_block=True)
        state.line = line + 1
    return True


def _push(
    state: StateInline | StateBlock, content: str, opening: str, closing: str, is_block: bool
) -> None:
    token = state.push("formula", "math", 0)
    token.content = content
    token.markup = opening + content + closing
    token.block = is_block


class _Renderer(RendererHTML):
    """A renderer that writes formulas and code by marks.

    `env` has what the marks stand for (`safe`) and how many characters may still be drawn or
    colored (`left`).
    """

    def formula(
        self, tokens: Sequence[Token], index: int, _options: OptionsDict, env: EnvType
    ) -> str:
        token = tokens[index]
        env["left"] -= len(token.content)
        if env["left"] >= 0:
            try:
                return _mark(env, mathml(token.content, token.block))
            except NoFormula:
                pass
        return escape(token.markup)

    def fence(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[index]
        env["left"] -= len(token.content)
        if env["left"] >= 0:
            try:
                return f"<pre><code>{_mark(env, colored(token.content, token.info))}</code></pre>\n"
            except NotColored:
                pass
        return super().fence(tokens, index, options, env)


def _mark(env: EnvType, html: str) -> str:
    env["safe"].append(html)
    return f"{env['nonce']}-{len(env['safe']) - 1}-"


_parser = (
    MarkdownIt(
        "commonmark",
        {"html": False, "linkify": False, "maxNesting": DEEPEST},
        renderer_cls=_Renderer,
    )
    .enable(["table", "strikethrough"])
    .disable("image")
)
_parser.inline.ruler.before("emphasis", "times", _times)
_parser.inline.ruler.before("escape", "formula", _formula)
_parser.block.ruler.before(
    "fence",
    "formula_block",
    _formula_block,
    {"alt": ["paragraph", "reference", "blockquote", "list"]},
)


def markup(text: str) -> SafeString:
    """Return safe HTML of a model's text; never raises."""
    if len(text) > MAX_FORMULA_LENGTH:
        return mark_safe(f"<pre>{escape(text)}</pre>")
    env: dict[str, Any] = {"nonce": f"mark{secrets.token_hex(16)}", "safe": [], "left": MAX_DRAWN}
    clean = nh3.clean(
        _parser.render(text, env),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
    )
    linked = LINK.sub(_link, clean)
    return mark_safe(_put_back(linked, env) if env["safe"] else linked)


def _put_back(html: str, env: dict[str, Any]) -> str:
    """Return the HTML with its formulas and code in place of their marks.

    A mark in the text itself has another nonce, and stays as it is.
    """
    return MARK.sub(
        lambda match: env["safe"][int(match[2])] if match[1] == env["nonce"] else match[0], html
    )


def _link(match: re.Match) -> str:
    """Return a link with its host beside it.

    Only the text when the address is not absolute http(s).
    """
    address, attributes, words = match.groups()
    parts = _split(address)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return words
    return (
        f'<a href="{address}"{attributes} target="_blank">{words}</a> <span'
        f' class="host">({escape(parts.hostname)})</span>'
    )


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None
