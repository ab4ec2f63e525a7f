"""An export as a download, streamed as it is read."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from apps.feedback.exporting.rows import Wanted
from apps.feedback.exporting.writing import FORMATS, file_name, written


def file_response(request: HttpRequest, kind: str, wanted: Wanted, form: str) -> StreamingHttpResponse:
    """The export as a download. Under ASGI each piece is read in a thread, or all would be held in memory at once."""
    pieces = written(kind, wanted, form)
    answer = StreamingHttpResponse(
        _in_threads(pieces) if isinstance(request, ASGIRequest) else pieces, content_type=FORMATS[form].content_type
    )
    answer["Content-Disposition"] = f'attachment; filename="{file_name(kind, wanted, form)}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(pieces, None))
    while (piece := await following()) is not None:
        yield piece
