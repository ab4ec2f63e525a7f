"""What the rating page sends about the item in hand: the decision, a sign of life, a release, a skip, a flag, an undo."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from apps.feedback.claiming import release, skip
from apps.feedback.demonstrating import demonstrate
from apps.feedback.forms import BadAnswer
from apps.feedback.forms.words import words
from apps.feedback.keeping import keep
from apps.feedback.models import FLAG
from apps.feedback.submitting import Refused, Submission, Taken, submit
from apps.feedback.undoing import undo
from apps.feedback.views.answering import answered, number_in, optional_whole_in, uuid_in, whole_in
from apps.feedback.views.page import item


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
    return JsonResponse({"lease_s": keep(request.user, slot, whole_in(document, "fence"))})


@answered
def release_slot(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: given back untouched."""
    release(request.user, slot, whole_in(document, "fence"))
    return HttpResponse(status=204)


@answered
def skip_slot(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: passed over with a reason; it goes to others."""
    problems: dict[str, str] = {}
    reason = words(document.get("reason", ""), "reason", problems, longest=300)
    if problems:
        raise BadAnswer(problems)
    skip(request.user, slot, whole_in(document, "fence"), reason)
    return HttpResponse(status=204)


@answered
def rewrite_slot(request: HttpRequest, document: dict, slot: int) -> HttpResponse:
    """Whoever holds the slot: an answer as it should be, beside the decision that the item asks for."""
    return _receipt(
        demonstrate(
            request.user,
            slot,
            whole_in(document, "fence"),
            whole_in(document, "rollout"),
            uuid_in(document, "client_uuid"),
            document.get("text"),
        )
    )


@answered
def undo_last(request: HttpRequest, document: dict) -> HttpResponse:
    """Whoever decided it: the decision is taken back, and the item comes again with the earlier answer in it."""
    held, rating = undo(request.user, uuid_in(document, "client_uuid"), uuid_in(document, "new_uuid"))
    return item(request, held, rating.answer if rating.form == held.form else None, rating.critique)


def _receipt(taken: Taken) -> HttpResponse:
    said = {"rating": taken.rating_id, "is_late": taken.is_late, "gold": taken.gold}
    return JsonResponse(said, status=201 if taken.is_new else 200)


def _submission(document: dict) -> Submission:
    unknown = sorted(set(document) - FIELDS)
    if unknown:
        raise BadAnswer({name[:100]: f"is no known field; known: {', '.join(sorted(FIELDS))}" for name in unknown[:5]})
    form = document.get("form")
    if not isinstance(form, str) or len(form) > 20:
        raise BadAnswer({"form": "must be the name of a form"})
    return Submission(
        client_uuid=uuid_in(document, "client_uuid"), fence=whole_in(document, "fence"), version=whole_in(document, "version"),
        form=form, answer=document.get("answer"), critique=document.get("critique", ""), seconds=number_in(document, "seconds"),
        first_key_ms=optional_whole_in(document, "first_key_ms"), changes=optional_whole_in(document, "changes") or 0,
        replaces=uuid_in(document, "replaces") if document.get("replaces") else None,
    )  # fmt: skip


FIELDS = {
    "client_uuid", "fence", "version", "form", "answer", "critique", "seconds", "first_key_ms", "changes", "replaces", "reason",
}  # fmt: skip
