"""Static files served directly from their folders, with texts compressed once per content."""

import gzip
import hashlib
import os
import threading
from pathlib import Path
from wsgiref.headers import Headers

from django.conf import settings
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

TEXTS = (".css", ".js", ".mjs", ".svg", ".json", ".txt", ".html")
MIN_COMPRESSED_BYTES = 400  # bytes; compressing smaller files gains nothing
_FOUND: dict[Path, dict[str, StaticFile]] = {}  # by URL, for each folder of compressed texts


class CompressedStatic(WhiteNoiseMiddleware):
    """WhiteNoise without `.gz` files beside the texts, so that no collect step is needed."""

    def add_files_from_finders(self) -> None:
        """Find the static files once per process and folder.

        A process may have many handlers (each test client has its own).
        """
        if settings.VAR not in _FOUND:
            super().add_files_from_finders()
            _FOUND[settings.VAR] = dict(self.files)
        self.files.update(_FOUND[settings.VAR])

    def get_static_file(self, path: str, url: str, stat_cache: dict | None = None) -> StaticFile:
        if (
            self.autorefresh
            or not url.endswith(TEXTS)
            or os.path.getsize(path) < MIN_COMPRESSED_BYTES
        ):
            return super().get_static_file(path, url, stat_cache)
        headers = Headers([])
        self.add_mime_headers(headers, path, url)
        self.add_cache_headers(headers, path, url)
        return StaticFile(path, headers.items(), encodings={"gzip": str(compressed(Path(path)))})


def compressed(path: Path) -> Path:
    """Return the file's gzip form, named by a digest of its content; create it if missing."""
    data = path.read_bytes()
    folder = settings.VAR / "static"
    target = folder / f"{hashlib.sha256(data).hexdigest()}.gz"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = (
            folder / f"{target.name}.{os.getpid()}.{threading.get_ident()}"
        )  # several processes may create it at once
        unfinished.write_bytes(gzip.compress(data, 9, mtime=0))
        unfinished.replace(target)
    return target
