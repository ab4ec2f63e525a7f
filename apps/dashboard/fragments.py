"""Fragments of a page that are fetched again: what they say has a digest, and what the reader has is not sent again."""

import hashlib
import re

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')  # another one at each answer, and each of them is good
DIGEST = 12


def digest_of(html: str) -> str:
    """Of what the fragment says; its form tokens say nothing."""
    return hashlib.sha256(TOKEN.sub("", html).encode()).hexdigest()[:DIGEST]


def unless_known(request: HttpRequest, html: str) -> HttpResponse:
    """The fragment; 304 where the browser has what it says. It asks each time, and keeps it for itself."""
    etag, response = f'"{digest_of(html)}"', HttpResponse(html)
    response["ETag"], response["Cache-Control"] = etag, "private, no-cache"
    return get_conditional_response(request, etag, None, response)
