"""Errors of the REST interface as RFC 9457 problems, with messages by field.

400 unreadable, 401 no valid token, 403 scope or role, 404 not there or not visible to you, 409 not
in this state, 410 it has ended, 413, 415, 422 readable but not acceptable (`errors` by field), 429
not now (`Retry-After` says when), 503 the database is unavailable, 500 a bug of ours, logged under
`id`.
"""

import math
import re
import uuid
from collections.abc import Iterator, Mapping
from http import HTTPStatus

import structlog
from django.core.exceptions import PermissionDenied
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions, serializers
from rest_framework.response import Response

from apps.accounts.locking import is_blocked, is_conflict
from apps.accounts.public_text import public_text

log = structlog.get_logger(__name__)
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = "5"
FRAMEWORK_415 = re.compile(r"Unsupported media type ")
BUSY_S = "1"
BUSY = "Somebody else changed the same data at the same moment; nothing was saved. Send it again."
SUMMED_UP = 3  # fields listed in the detail; `errors` has all


class Conflict(exceptions.APIException):
    """The current state does not allow the request (409)."""

    status_code = HTTPStatus.CONFLICT
    default_code = "conflict"


class AtWork(Conflict):
    """The same request is being processed already (409)."""

    default_code = "at_work"
    wait = 1.0


class Gone(exceptions.APIException):
    """The object has ended and accepts nothing more (410)."""

    status_code = HTTPStatus.GONE
    default_code = "gone"


class NotNow(exceptions.APIException):
    """There is no capacity, or nothing to do, at the moment (429).

    `wait` is the number of seconds after which to try again.
    """

    status_code = HTTPStatus.TOO_MANY_REQUESTS
    default_code = "not_now"

    def __init__(self, detail: str, wait: float) -> None:
        super().__init__(detail)
        self.wait = wait


class Problem(serializers.Serializer):
    """The shape of every error."""

    type = serializers.CharField(help_text="`urn:rftweb:` and the kind of problem.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    id = serializers.CharField(required=False, help_text="The ID of a server error in the log.")
    # The metaclass takes fields out of the class: the property `errors` stays what it is.
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="Errors by dotted field name.",
    )


def handle_rest_error(error: Exception, context: dict) -> Response:
    """Return the response to an exception of a REST view."""
    if isinstance(error, exceptions.UnsupportedMediaType) and FRAMEWORK_415.match(
        str(error.detail)
    ):
        content_type = context["request"].headers.get("Content-Type", "")
        what = (
            f"The Content-Type {content_type[:100]!r} is not supported"
            if content_type
            else "The request has no Content-Type"
        )
        accepted = " or ".join(_media_types(context))
        error = exceptions.UnsupportedMediaType(content_type, f"{what}: send {accepted}.")
    return answer_exception(error, context["request"].path)


def _media_types(context: dict) -> list[str]:
    """Return the content types that the view of this request reads."""
    return [parser.media_type for parser in context["view"].get_parsers()]


def answer_exception(error: Exception, path: str) -> Response:
    """Return the response to an exception under this path; every exception has one."""
    match error:
        case Http404():
            return problem_response(404, "not_found", "Not found, or you don’t have access.")
        case PermissionDenied():
            return problem_response(
                403, "permission_denied", "You don’t have permission to do this."
            )
        case serializers.ValidationError():
            errors = dict(by_field(error.detail))
            summary = "; ".join(
                f"{field}: {words[0]}" for field, words in list(errors.items())[:SUMMED_UP]
            )
            return problem_response(422, "not_acceptable", summary, errors=errors)
        case exceptions.APIException():
            return _of_framework(error)
        case DataError():
            return problem_response(
                400,
                "unstorable",
                "A value can’t be stored: it contains an invalid character or a number out of"
                " range.",
            )
        case OperationalError() if is_conflict(error) or is_blocked(error):
            log.warning("lock_conflict", path=path, error=str(error).strip())
            return problem_response(503, "busy", BUSY, headers={"Retry-After": BUSY_S})
        case OperationalError() | InterfaceError():
            log.warning("database_unavailable", error=str(error).strip())
            return problem_response(
                503,
                "database_unavailable",
                "The database is not responding. Try again.",
                headers={"Retry-After": RETRY_AFTER_S},
            )
    return _fault(error, path)


def problem_response(
    status: int,
    kind: str,
    detail: str,
    headers: dict | None = None,
    errors: Mapping[str, list[str]] | None = None,
    **more: object,
) -> Response:
    return Response(
        problem_document(status, kind, detail, errors, **more),
        status,
        headers=headers,
        content_type=MEDIA_TYPE,
    )


def problem_document(
    status: int,
    kind: str,
    detail: str,
    errors: Mapping[str, list[str]] | None = None,
    **more: object,
) -> dict:
    if errors is not None:
        problems = errors.items()
        more["errors"] = {field: [public_text(word) for word in words] for field, words in problems}
    title = HTTPStatus(status).phrase
    standard_members = {"type": f"urn:rftweb:{kind}", "title": title, "status": int(status)}
    return {**standard_members, "detail": public_text(detail), **more}


def by_field(detail: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield (dotted field, messages) of DRF's nested error details.

    Errors of the whole document are named `body`.
    """
    if isinstance(detail, dict):
        for name, part in detail.items():
            yield from by_field(part, path if name == "non_field_errors" else (*path, str(name)))
    elif isinstance(detail, list) and any(isinstance(part, dict | list) for part in detail):
        for index, part in enumerate(detail):
            yield from by_field(part, (*path, str(index)))
    elif detail:
        yield (
            ".".join(path) or "body",
            [str(words) for words in (detail if isinstance(detail, list) else [detail])],
        )


def _of_framework(error: exceptions.APIException) -> Response:
    challenge = getattr(error, "auth_header", None)
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    wait = getattr(error, "wait", None)
    if wait is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return problem_response(
        error.status_code, error.default_code, str(error.detail), headers=headers
    )


def _fault(error: Exception, path: str) -> Response:
    number = uuid.uuid4().hex
    log.error("server_error", id=number, path=path, exc_info=error)
    return problem_response(
        500, "fault", "Server error. The log has details under this ID.", id=number
    )
