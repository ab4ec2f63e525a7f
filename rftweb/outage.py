"""What a page answers while the database does not answer: 503 and the reason, not a fault of ours. REST says it in its own way."""

import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

log = structlog.get_logger(__name__)
UNAVAILABLE, RETRY_AFTER_S = 503, 5


class DatabaseAway:
    """Middleware. The page is rendered without a request: whatever would ask who is there asks the database."""

    def __init__(self, get_response) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, OperationalError | InterfaceError):
            return None
        log.warning("database_away", path=request.path, error=str(error).strip())
        return HttpResponse(render_to_string("503.html"), status=UNAVAILABLE, headers={"Retry-After": str(RETRY_AFTER_S)})
