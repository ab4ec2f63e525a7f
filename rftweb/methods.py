"""Pages take GET, HEAD, POST and OPTIONS; other methods belong to the interfaces for programs."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

OF_PAGES = ("GET", "HEAD", "POST", "OPTIONS")
PROGRAMS = ("/api/", "/v1/", "/openenv/")


class MethodsOfPages:
    """Refuse other methods with 405; libraries' pages would take PUT for POST and TRACE for GET."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method in OF_PAGES or request.path_info.startswith(PROGRAMS):
            return self.get_response(request)
        return HttpResponseNotAllowed(OF_PAGES)
