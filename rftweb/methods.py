"""Allowed HTTP methods of pages: GET, HEAD, POST and OPTIONS.

Other methods belong to the interfaces for programs.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

OF_PAGES = ("GET", "HEAD", "POST", "OPTIONS")
PROGRAMS = ("/api/", "/v1/", "/openenv/")


class MethodsOfPages:
    """Middleware that refuses other methods with 405.

    Libraries' pages would treat PUT as POST and TRACE as GET.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method in OF_PAGES or request.path_info.startswith(PROGRAMS):
            return self.get_response(request)
        return HttpResponseNotAllowed(OF_PAGES)
