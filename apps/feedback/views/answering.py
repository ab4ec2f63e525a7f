"""A decorator for views that take a JSON object and answer in JSON.

The page keeps data in the browser until it was received. A signed-out user gets a 401, because a
redirect would lose what the user typed.
"""

import json
import uuid
from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from apps.feedback.claiming import NotHeld
from apps.feedback.forms import BadAnswer
from apps.feedback.ratings.answers import Refused

MAX_BODY_BYTES = 2 * 2**20
MAX_BIGINT = 2**63 - 1
NEXT = {
    "stale": "You get it again in its current form.",
    "lease_lost": "Your text is kept here. Continue with the next item.",
}


def accept_json_post(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap a view for signed-in users that takes a JSON object by POST.

    Errors are answered by code, by field, or as a lost lease.
    """

    @require_POST
    @wraps(view)
    def answer_json(request: HttpRequest, **arguments: int) -> HttpResponse:
        if not request.user.is_authenticated:
            return JsonResponse(
                {
                    "detail": (
                        "You are signed out. Your browser keeps your text and sends it after you"
                        " log in."
                    )
                },
                status=401,
            )
        try:
            return view(request, _document(request), **arguments)
        except BadAnswer as bad:
            return JsonResponse({"fields": bad.problems}, status=422)
        except NotHeld as lost:
            return JsonResponse(
                {"code": "lease_lost", "detail": lost.next, "next": NEXT["lease_lost"]}, status=409
            )
        except Refused as refused:
            status = 404 if refused.code == "gone" else 409
            return JsonResponse(
                {"code": refused.code, "detail": str(refused), "next": NEXT.get(refused.code, "")},
                status=status,
            )

    return answer_json


def _document(request: HttpRequest) -> dict:
    """Return the JSON object in the body; sendBeacon sends it as text. Raises BadAnswer."""
    # The body was already read for its token, and cannot be read again.
    if request.content_type == "multipart/form-data":
        raise BadAnswer({"body": "is not valid JSON"})
    if len(request.body) > MAX_BODY_BYTES:
        raise BadAnswer({"body": f"is larger than {MAX_BODY_BYTES // 2**20} MiB"})
    try:
        document = json.loads(request.body or b"{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadAnswer({"body": "is not valid JSON"}) from None
    if not isinstance(document, dict):
        raise BadAnswer({"body": "must be a JSON object"})
    return document


def _no_constant(name: str) -> float:
    raise ValueError(name)


def uuid_in(document: dict, name: str) -> uuid.UUID:
    try:
        return uuid.UUID(document.get(name, ""))
    except (ValueError, AttributeError, TypeError):
        raise BadAnswer({name: "must be a UUID, as from crypto.randomUUID()"}) from None


def whole_in(document: dict, name: str) -> int:
    value = document.get(name)
    if type(value) is not int or not 0 <= value <= MAX_BIGINT:
        raise BadAnswer({name: "must be a whole number"})
    return value


def optional_whole_in(document: dict, name: str) -> int | None:
    return None if document.get(name) is None else min(whole_in(document, name), 2**31 - 1)


def number_in(document: dict, name: str) -> float | None:
    value = document.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise BadAnswer({name: "must be a number of seconds"})
    return value
