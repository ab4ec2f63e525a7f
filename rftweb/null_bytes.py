"""Middleware that refuses requests with NUL characters, which PostgreSQL cannot store.

The page names the field. REST checks this in its own way.
"""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

NUL = "\0"
MAX_NAME_LENGTH = 100


class NulRefused:
    """Middleware that checks the input before any page reads it.

    Otherwise each page would have to check each field that it uses in a query.
    """

    def __init__(self, get_response) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view, arguments, url_arguments
    ) -> HttpResponse | None:
        if getattr(
            view, "csrf_exempt", False
        ):  # URLs for programs, which answer with documents of their own
            return None
        field = _field_with_nul(request)
        return (
            None
            if field is None
            else render(request, "400.html", {"field": field}, status=HTTPStatus.BAD_REQUEST)
        )


def _field_with_nul(request: HttpRequest) -> str | None:
    """Return the first field of query or form with a NUL in its name or value.

    It is "" for the URL itself. The form has been read already, for its CSRF token.
    """
    if NUL in request.path_info:
        return ""
    for fields in (request.GET, request.POST) if request.method == "POST" else (request.GET,):
        for name, values in fields.lists():
            if NUL in name or any(NUL in value for value in values):
                return name.replace(NUL, "")[:MAX_NAME_LENGTH]
    return None
