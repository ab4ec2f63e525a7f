"""A test client whose HTML has no white space that a browser wouldn't show.

So a test can search for a piece of a page, wherever its template breaks the lines.
"""

import re

from django.http import HttpResponseBase
from django.test import Client

BLOCKS = (
    "article aside blockquote body caption col colgroup datalist dd details dialog div dl dt"
    " fieldset figcaption metric footer form h1 h2 h3 h4 h5 h6 head header hr html legend li"
    " link main menu meta nav ol optgroup option p pre script section select style summary svg"
    " table tbody td template tfoot th thead title tr ul circle g line path polyline rect symbol"
)
AROUND_BLOCKS = re.compile(
    rf" ?(</?(?:{BLOCKS.replace(' ', '|')})\b[^>]*>|<input type=\"hidden\"[^>]*>) ?"
)
IN_BUTTONS = re.compile(r"(<button\b[^>]*>) | (?=</button>)")
VERBATIM = re.compile(r"(<(pre|textarea|script)\b[^>]*>)(.*?)(</\2>)", re.DOTALL)
SPACES = re.compile(r"\s+")
TAG_END = re.compile(r"\s*(/?>)$")
TAG = re.compile(r"<[a-zA-Z](?:\"[^\"]*\"|'[^']*'|[^<>\"'])*>")


class CompactClient(Client):
    """Django's test client, which removes unneeded white space from pages."""

    def request(self, **request: object) -> HttpResponseBase:
        response = super().request(**request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and not response.streaming and not response.has_header("Content-Encoding"):
            response.content = compact(response.content.decode()).encode()
        return response


def compact(page: str) -> str:
    """Return HTML without white space that isn't shown, also within its tags."""
    parts = []
    end = 0
    for kept in VERBATIM.finditer(page):
        parts += [
            _compact_markup(page[end : kept.start()]),
            _compact_tag(kept[1]),
            kept[3],
            kept[4],
        ]
        end = kept.end()
    return "".join([*parts, _compact_markup(page[end:])])


def _compact_markup(text: str) -> str:
    text = TAG.sub(_without_space_at_its_end, SPACES.sub(" ", text))
    return IN_BUTTONS.sub(r"\1", AROUND_BLOCKS.sub(r"\1", text))


def _without_space_at_its_end(tag: re.Match[str]) -> str:
    return TAG_END.sub(r"\1", tag[0]) if tag[0].endswith((" >", " />")) else tag[0]


def _compact_tag(tag: str) -> str:
    return TAG_END.sub(r"\1", SPACES.sub(" ", tag))
