"""Texts go compressed to whoever takes that, and are the same text."""

import gzip

from django.conf import settings
from django.test import Client


def body(response) -> bytes:
    return b"".join(response.streaming_content)


def test_a_stylesheet_goes_compressed_and_is_the_same():
    plain = Client().get("/static/css/app.css")
    packed = Client().get("/static/css/app.css", headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain
    small, whole = body(packed), body(plain)
    assert gzip.decompress(small) == whole == (settings.BASE_DIR / "static/css/app.css").read_bytes()
    assert len(small) < len(whole) / 3 and packed["Vary"] == "Accept-Encoding"


def test_what_was_seen_before_is_not_sent_again():
    first = Client().get("/static/css/app.css", headers={"Accept-Encoding": "gzip"})
    again = Client().get("/static/css/app.css", headers={"Accept-Encoding": "gzip", "If-None-Match": first["ETag"]})
    assert again.status_code == 304
