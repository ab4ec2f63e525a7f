"""Requests of the rating page about the held item, such as a decision, a skip or an undo."""

from django.http import HttpResponse, JsonResponse

from apps.accounts.requests import SignedInRequest
from apps.feedback.claiming import give_back_item, skip
from apps.feedback.forms import BadAnswer
from apps.feedback.forms.words import words
from apps.feedback.lease_renewal import extend_item_lease
from apps.feedback.models import FLAG
from apps.feedback.ratings.answers import Refused
from apps.feedback.ratings.items import Submission, SubmissionResult, submit
from apps.feedback.ratings.rewrites import demonstrate
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.feedback.views.answering import (
    accept_json_post,
    number_in,
    optional_whole_in,
    uuid_in,
    whole_in,
)
from apps.feedback.views.page import item


@accept_json_post
def save_decision(request: SignedInRequest, document: dict, slot: int) -> HttpResponse:
    """Save the decision of the slot's holder.

    Answers 201 when it is new, 200 when it was saved before, 409 and 422 in words.
    """
    submission = _submission(document)
    try:
        return _receipt(submit(request.user, slot, submission))
    except Refused as refused:
        if refused.code == "stale":  # the item is shown again in its new state
            give_back_item(request.user, slot, submission.fence)
        raise


@accept_json_post
def flag_reply(request: SignedInRequest, document: dict, slot: int) -> HttpResponse:
    """Flag the reply as broken, with a reason, for the slot's holder. Nobody trains on it."""
    answer = {"reason": document.get("reason", "")}
    if (rollout := document.pop("rollout", None)) is not None:
        answer["rollout"] = rollout
    return _receipt(
        submit(request.user, slot, _submission({**document, "form": FLAG, "answer": answer}))
    )


@accept_json_post
def keep_slot(request: SignedInRequest, document: dict, slot: int) -> HttpResponse:
    """Renew the lease for the slot's holder. Answers with the seconds left from now."""
    return JsonResponse(
        {"lease_s": extend_item_lease(request.user, slot, whole_in(document, "fence"))}
    )


@accept_json_post
def release_slot(request: SignedInRequest, document: dict, slot: int) -> HttpResponse:
    """Give the item back undecided, for the slot's holder."""
    give_back_item(request.user, slot, whole_in(document, "fence"))
    return HttpResponse(status=204)


@accept_json_post
def skip_slot(request: SignedInRequest, document: dict, slot: int) -> HttpResponse:
    """Skip the item with a reason, for the slot's holder; it goes to others."""
    problems: dict[str, str] = {}
    reason = words(document.get("reason", ""), "reason", problems, max_length=300)
    if problems:
        raise BadAnswer(problems)
    skip(request.user, slot, whole_in(document, "fence"), reason)
    return HttpResponse(status=204)


@accept_json_post
def rewrite_slot(request: SignedInRequest, document: dict, slot: int) -> HttpResponse:
    """Save a corrected answer of the slot's holder, beside the decision that the item needs."""
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


@accept_json_post
def undo_last(request: SignedInRequest, document: dict) -> HttpResponse:
    """Withdraw a decision for its author; the item comes again with the earlier answer in it."""
    held_item, rating = withdraw_decision(
        request.user, uuid_in(document, "client_uuid"), uuid_in(document, "new_uuid")
    )
    return item(
        request.user,
        held_item,
        rating.answer if rating.form == held_item.form else None,
        rating.critique,
    )


def _receipt(outcome: SubmissionResult) -> HttpResponse:
    result = {"rating": outcome.rating_id, "is_late": outcome.is_late, "gold": outcome.gold}
    return JsonResponse(result, status=201 if outcome.is_new else 200)


def _submission(document: dict) -> Submission:
    unknown = sorted(set(document) - FIELDS)
    if unknown:
        raise BadAnswer(
            {
                name[:100]: f"is not a known field; fields: {', '.join(sorted(FIELDS))}"
                for name in unknown[:5]
            }
        )
    form = document.get("form")
    if not isinstance(form, str) or len(form) > 20:
        raise BadAnswer({"form": "must be a rating type"})
    return Submission(
        client_uuid=uuid_in(document, "client_uuid"),
        fence=whole_in(document, "fence"),
        version=whole_in(document, "version"),
        form=form,
        answer=document.get("answer"),
        critique=document.get("critique", ""),
        seconds=number_in(document, "seconds"),
        first_key_ms=optional_whole_in(document, "first_key_ms"),
        changes=optional_whole_in(document, "changes") or 0,
        replaces=uuid_in(document, "replaces") if document.get("replaces") else None,
    )


FIELDS = {
    "client_uuid",
    "fence",
    "version",
    "form",
    "answer",
    "critique",
    "seconds",
    "first_key_ms",
    "changes",
    "replaces",
    "reason",
}
