"""Files that were sent, where readers find them for as long as they are read."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from django.core.files.uploadedfile import UploadedFile

from apps.tasksets.sources.names import ZIP, find_format_suffix

MAX_NAME_LENGTH = 200  # characters that are kept of a file's name


def upload_name(upload: UploadedFile) -> str:
    """Return the file's own name, without folders."""
    return PurePosixPath((upload.name or "").replace("\0", "")).name[:MAX_NAME_LENGTH]


@contextmanager
def keep_upload(upload: UploadedFile) -> Iterator[Path]:
    """Yield a copy of the file whose name ends as the file's does; it goes when the block ends."""
    name = upload.name or ""
    suffix = ZIP if name.lower().endswith(ZIP) else find_format_suffix(name)
    with tempfile.NamedTemporaryFile(prefix="sent-", suffix=suffix) as copy:
        for piece in upload.chunks():
            copy.write(piece)
        copy.flush()
        yield Path(copy.name)
