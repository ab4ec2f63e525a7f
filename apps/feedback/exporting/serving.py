"""Streaming of an export as a download."""

from django.http import HttpRequest, StreamingHttpResponse

from apps.accounts.downloads import stream_download
from apps.feedback.exporting.rows import RowSelection
from apps.feedback.exporting.writing import FORMATS, file_name, stream_export_file


def file_response(
    request: HttpRequest, kind: str, selection: RowSelection, form: str
) -> StreamingHttpResponse:
    """Return the export as a streamed download."""
    return stream_download(
        request,
        stream_export_file(kind, selection, form),
        FORMATS[form].content_type,
        file_name(kind, selection, form),
    )
