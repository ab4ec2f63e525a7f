"""What the rating page sends about the item in hand: the decision, a sign of life, a release, a skip, a flag, an undo.

JSON in, JSON out; who is signed out is told so with 401, because a redirect would lose what was typed.
"""

import json
import uuid
from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from apps.feedback.claiming import NotHeld, release, skip
from apps.feedback.demonstrating import demonstrate
from apps.feedback.forms import BadAnswer
from apps.feedback.forms.words import words
from apps.feedback.keeping import keep
from apps.feedback.models import FLAG
from apps.feedback.submitting import Refused, Submission, Taken, submit
from apps.feedback.undoing import undo
from apps.feedback.views.page import item

LARGEST_BODY = 2 * 2**20
LARGEST = 2**63 - 1
NEXT = {"stale": "It comes again as it is asked now.", "lease_lost": "Your words are kept here; go on with the next item."}


def answered(view: Callable[[HttpRequest, dict, int], HttpResponse]) -> Callable[..., HttpResponse]:
    """Those signed in, by POST of a JSON object. What is refused is told by code, by field, or as lost."""

    @require_POST
    @wraps(view)
    def told(request: HttpRequest, slot: int = 0) -> HttpResponse:
        if not request.user.is_authenticated:
            return JsonResponse(
                {"detail": "You are signed out. What you typed is kept in this browser; sign in and it is sent."}, status=401
            )
        try:
            return view(request, _document(request), slot)
        except BadAnswer as bad:
            return JsonResponse({"fields": bad.problems}, status=422)
        except NotHeld as lost:
            return JsonResponse({"code": "lease_lost", "detail": lost.next, "next": NEXT["lease_lost"]}, status=409)
        except Refused as refused:
            status = 404 if refused.code == "gone" else 409
            return JsonResponse({"code": refused.code, "detail": str(refused), "next": NEXT.get(refused.code, "")}, status=status)

    return told


@answered
def decide(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: the decision. 201 taken, 200 when it was taken before, 409 and 422 in words."""
    said = _submission(document)
    try:
        return _receipt(submit(request.user, slot, said))
    except Refused as refused:
        if refused.code == "stale":  # it comes again, as it is asked now
            release(request.user, slot, said.fence)
        raise


@answered
def flag(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: the reply is broken, and why. Nobody trains on it."""
    answer = {"reason": document.get("reason", "")}
    if (rollout := document.pop("rollout", None)) is not None:
        answer["rollout"] = rollout
    return _receipt(submit(request.user, slot, _submission({**document, "form": FLAG, "answer": answer})))


@answered
def keep_slot(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: still at it. Answers with the seconds left from now."""
    return JsonResponse({"lease_s": keep(request.user, slot, _whole(document, "fence"))})


@answered
def release_slot(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: given back untouched."""
    release(request.user, slot, _whole(document, "fence"))
    return HttpResponse(status=204)


@answered
def skip_slot(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: passed over with a reason; it goes to others."""
    problems: dict[str, str] = {}
    reason = words(document.get("reason", ""), "reason", problems, longest=300)
    if problems:
        raise BadAnswer(problems)
    skip(request.user, slot, _whole(document, "fence"), reason)
    return HttpResponse(status=204)


@answered
def rewrite_slot(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: an answer as it should be, beside the decision that the item asks for."""
    return _receipt(
        demonstrate(
            request.user,
            slot,
            _whole(document, "fence"),
            _whole(document, "rollout"),
            _uuid(document, "client_uuid"),
            document.get("text"),
        )
    )


@answered
def undo_last(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever decided it: the decision is taken back, and the item comes again with the earlier answer in it."""
    held, rating = undo(request.user, _uuid(document, "client_uuid"), _uuid(document, "new_uuid"))
    return item(request, held, rating.answer if rating.form == held.form else None, rating.critique)


def _receipt(taken: Taken) -> HttpResponse:
    said = {"rating": taken.rating_id, "is_late": taken.is_late, "gold": taken.gold}
    return JsonResponse(said, status=201 if taken.is_new else 200)


def _document(request: HttpRequest) -> dict:
    """The JSON object in the body; sendBeacon sends it as text. Raises BadAnswer."""
    if len(request.body) > LARGEST_BODY:
        raise BadAnswer({"body": f"is larger than {LARGEST_BODY // 2**20} MiB"})
    try:
        document = json.loads(request.body or b"{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadAnswer({"body": "is no JSON"}) from None
    if not isinstance(document, dict):
        raise BadAnswer({"body": "must be a JSON object"})
    return document


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _submission(document: dict) -> Submission:
    unknown = sorted(set(document) - FIELDS)
    if unknown:
        raise BadAnswer({name[:100]: f"is no known field; known: {', '.join(sorted(FIELDS))}" for name in unknown[:5]})
    form = document.get("form")
    if not isinstance(form, str) or len(form) > 20:
        raise BadAnswer({"form": "must be the name of a form"})
    return Submission(
        client_uuid=_uuid(document, "client_uuid"), fence=_whole(document, "fence"), version=_whole(document, "version"), form=form,
        answer=document.get("answer"), critique=document.get("critique", ""), seconds=_number(document, "seconds"),
        first_key_ms=_optional_whole(document, "first_key_ms"), changes=_optional_whole(document, "changes") or 0,
        replaces=_uuid(document, "replaces") if document.get("replaces") else None,
    )  # fmt: skip


FIELDS = {
    "client_uuid", "fence", "version", "form", "answer", "critique", "seconds", "first_key_ms", "changes", "replaces", "reason",
}  # fmt: skip


def _uuid(document: dict, name: str) -> uuid.UUID:
    try:
        return uuid.UUID(document.get(name, ""))
    except (ValueError, AttributeError, TypeError):
        raise BadAnswer({name: "must be a UUID, such as crypto.randomUUID() makes"}) from None


def _whole(document: dict, name: str) -> int:
    value = document.get(name)
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise BadAnswer({name: "must be a whole number"})
    return value


def _optional_whole(document: dict, name: str) -> int | None:
    return None if document.get(name) is None else min(_whole(document, name), 2**31 - 1)


def _number(document: dict, name: str) -> float | None:
    value = document.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise BadAnswer({name: "must be a number of seconds"})
    return value
