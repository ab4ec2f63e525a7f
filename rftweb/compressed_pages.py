"""Compression of pages and JSON on their way to browsers and programs."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

COMPRESSED_TYPES = ("text/", "application/json", "application/problem+json")


class CompressedPages(GZipMiddleware):
    """Compress complete responses of text with gzip, if the client accepts it.

    Django adds a random number of bytes to each, so that its size does not tell an attacker what
    the page contains (the attack named BREACH). Streams are not compressed: events must arrive at
    once, and downloads are large or compressed already.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        is_text = response.get("Content-Type", "").startswith(COMPRESSED_TYPES)
        if response.streaming or not is_text:
            return response
        return super().process_response(request, response)
