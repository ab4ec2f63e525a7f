"""Pages for an unavailable database and for conflicting transactions."""

import inspect

import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from apps.accounts.locking import is_blocked, is_conflict, retrying

log = structlog.get_logger(__name__)
UNAVAILABLE = 503
AWAY_S = 5
BUSY_S = 1
SAFE_METHODS = ("GET", "HEAD")


class DatabaseUnavailable:
    """Middleware: 503 while the database is unavailable, and a retry after a conflict.

    The page is rendered without a request, because a request's context queries the user. A view
    that only reads is called again after a conflict. Writes are retried where their transaction is
    (`apps.accounts.locking.unit_of_work`); a request that still fails wrote nothing in its last
    transaction, and the page says that it can be sent again.
    """

    def __init__(self, get_response) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, OperationalError | InterfaceError):
            return None
        if is_blocked(error):
            return self._busy(request, error)
        if not is_conflict(error):
            return self._unavailable(request, error)
        match = request.resolver_match
        assert match is not None  # a view was running
        view = match.func
        if request.method not in SAFE_METHODS or inspect.iscoroutinefunction(view):
            return self._busy(request, error)
        try:
            return self._again(request)
        except OperationalError as last:
            return self._busy(request, last)

    @staticmethod
    def _again(request: HttpRequest) -> HttpResponse:
        match = request.resolver_match
        assert match is not None  # a view was running
        response = retrying(match.func)(request, *match.args, **match.kwargs)
        if hasattr(response, "render") and not response.is_rendered:
            response = response.render()
        return response

    @staticmethod
    def _unavailable(request: HttpRequest, error: Exception) -> HttpResponse:
        log.warning("database_unavailable", path=request.path, error=str(error).strip())
        headers = {"Retry-After": str(AWAY_S)}
        return HttpResponse(render_to_string("503.html"), status=UNAVAILABLE, headers=headers)

    @staticmethod
    def _busy(request: HttpRequest, error: Exception) -> HttpResponse:
        log.warning("lock_conflict", path=request.path, error=str(error).strip())
        headers = {"Retry-After": str(BUSY_S)}
        text = render_to_string("503_busy.html")
        return HttpResponse(text, status=UNAVAILABLE, headers=headers)
