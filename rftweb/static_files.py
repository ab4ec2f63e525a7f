"""Static files straight from their folders, and compressed: each text once at start, into a folder of the installation."""

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
SMALLEST = 400  # bytes; what is smaller gains nothing on the wire
_FOUND: dict[Path, dict[str, StaticFile]] = {}  # by address, for each folder of compressed texts


class CompressedStatic(WhiteNoiseMiddleware):
    """WhiteNoise whose texts need no `.gz` beside them: nothing has to be collected between an edit and the page."""

    def add_files_from_finders(self) -> None:
        """Looked for once in a process and folder: a process may have many handlers (each client of a test has its own)."""
        if settings.VAR not in _FOUND:
            super().add_files_from_finders()
            _FOUND[settings.VAR] = dict(self.files)
        self.files.update(_FOUND[settings.VAR])

    def get_static_file(self, path: str, url: str, stat_cache: dict | None = None) -> StaticFile:
        if self.autorefresh or not url.endswith(TEXTS) or os.path.getsize(path) < SMALLEST:
            return super().get_static_file(path, url, stat_cache)
        headers = Headers([])
        self.add_mime_headers(headers, path, url)
        self.add_cache_headers(headers, path, url)
        return StaticFile(path, headers.items(), encodings={"gzip": str(compressed(Path(path)))})


def compressed(path: Path) -> Path:
    """The file's gzip form, made unless it is there: its name is the digest of what it holds."""
    data = path.read_bytes()
    folder = settings.VAR / "static"
    target = folder / f"{hashlib.sha256(data).hexdigest()}.gz"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{target.name}.{os.getpid()}.{threading.get_ident()}"  # several may make it at once
        unfinished.write_bytes(gzip.compress(data, 9, mtime=0))
        unfinished.replace(target)
    return target
