"""Fragments of a page that are polled; an unchanged one is not sent again."""

import hashlib
import re

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response

# Parts that differ at each response without being news: form tokens, each of which is valid, and
# ages, which the page updates by itself.
FLEETING = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"|data-age>[^<]*')
DIGEST = 12


def digest_fragment(html: str) -> str:
    """Return the digest of a fragment, without parts that differ at each response."""
    return hashlib.sha256(FLEETING.sub("", html).encode()).hexdigest()[:DIGEST]


def if_changed(request: HttpRequest, html: str) -> HttpResponse:
    """Return the fragment, or 304 if the browser has it already.

    The browser must revalidate each time, and the response is private.
    """
    etag = f'"{digest_fragment(html)}"'
    response = HttpResponse(html)
    response["ETag"], response["Cache-Control"] = etag, "private, no-cache"
    answer = get_conditional_response(request, etag, None, response)
    assert answer is not None  # it returns the response that it is given, or one of its own
    return answer
