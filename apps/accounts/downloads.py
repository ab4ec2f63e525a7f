"""Downloads that are generated while they are sent."""

from collections.abc import AsyncIterator, Iterable, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

CHUNK = 256 * 1024  # bytes
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class Download(StreamingHttpResponse):
    """A streaming response that says who receives it: rftweb.answers counts open downloads."""

    downloaded_by = ""


def stream_download(
    request: HttpRequest, pieces: Iterator[bytes], content_type: str, name: str
) -> Download:
    """Return a streaming response with this file name.

    Under ASGI each piece is made in a thread; otherwise all of them would be held in memory at
    once.
    """
    answer = Download(
        _in_threads(pieces) if isinstance(request, ASGIRequest) else pieces,
        content_type=content_type,
    )
    answer.downloaded_by = str(request.user.pk or "")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def in_chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines joined into pieces of CHUNK bytes or more."""
    pending = bytearray()
    for line in lines:
        pending += line
        if len(pending) >= CHUNK:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


def csv_cell(value: object) -> object:
    """Return the value so that no spreadsheet treats text as a formula.

    Spreadsheets evaluate cells that begin with one of FORMULA_STARTS; an apostrophe before it makes
    it text (OWASP, "CSV injection"). Numbers and dates stay as they are.
    """
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return "'" + value
    return value


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(pieces, None))
    while (piece := await following()) is not None:
        yield piece
