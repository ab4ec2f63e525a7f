"""An export as a download, streamed as it is read."""

from django.http import HttpRequest, StreamingHttpResponse

from apps.accounts.downloads import download
from apps.feedback.exporting.rows import Wanted
from apps.feedback.exporting.writing import FORMATS, file_name, written


def file_response(request: HttpRequest, kind: str, wanted: Wanted, form: str) -> StreamingHttpResponse:
    """The export as a download."""
    return download(request, written(kind, wanted, form), FORMATS[form].content_type, file_name(kind, wanted, form))
