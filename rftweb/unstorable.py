"""What a page is sent with a NUL, which cannot be stored, is refused, and the field is named. REST says it in its own way."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

NUL = "\0"
LONGEST_NAME = 100


class NulRefused:
    """Middleware. Before any page reads what was sent: else each would have to look, in each field that it looks rows up by."""

    def __init__(self, get_response) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view, arguments, named) -> HttpResponse | None:
        if getattr(view, "csrf_exempt", False):  # machines' addresses, which answer with documents of their own
            return None
        field = _field_with_nul(request)
        return None if field is None else render(request, "400.html", {"field": field}, status=HTTPStatus.BAD_REQUEST)


def _field_with_nul(request: HttpRequest) -> str | None:
    """The first field of the query or of the form with a NUL in its name or in a value; "" is the address itself.

    The form has been read already, for its CSRF token.
    """
    if NUL in request.path_info:
        return ""
    for sent in (request.GET, request.POST) if request.method == "POST" else (request.GET,):
        for name, values in sent.lists():
            if NUL in name or any(NUL in value for value in values):
                return name.replace(NUL, "")[:LONGEST_NAME]
    return None
