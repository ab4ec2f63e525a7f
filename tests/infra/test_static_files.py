"""Text files are sent compressed to clients that accept it, with the same content."""

import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from django.conf import settings
from django.test import Client

from rftweb.static_files import compressed


def body(response) -> bytes:
    return b"".join(response.streaming_content)


def test_stylesheet_is_sent_compressed_with_the_same_content():
    plain = Client().get("/static/css/app.css")
    packed = Client().get("/static/css/app.css", headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain
    small = body(packed)
    whole = body(plain)
    assert (
        gzip.decompress(small) == whole == (settings.BASE_DIR / "static/css/app.css").read_bytes()
    )
    assert len(small) < len(whole) / 3 and packed["Vary"] == "Accept-Encoding"


def test_unchanged_compressed_file_is_not_sent_again():
    first = Client().get("/static/css/app.css", headers={"Accept-Encoding": "gzip"})
    again = Client().get(
        "/static/css/app.css", headers={"Accept-Encoding": "gzip", "If-None-Match": first["ETag"]}
    )
    assert again.status_code == 304


def test_two_threads_that_compress_the_same_file_at_once_both_get_it(
    settings, tmp_path, monkeypatch
):
    settings.VAR = tmp_path
    text = settings.BASE_DIR / "static/css/app.css"
    written = Barrier(2)
    replace = Path.replace

    def once_both_are_written(unfinished: Path, target: Path) -> Path:
        written.wait(60)
        return replace(unfinished, target)

    monkeypatch.setattr(Path, "replace", once_both_are_written)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(compressed, [text, text])
    assert first == second and gzip.decompress(first.read_bytes()) == text.read_bytes()
