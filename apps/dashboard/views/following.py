"""One rollout in large view on the live wall, and actions of its watchers while it is sampled."""

import json
import uuid

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.requests import SignedInRequest, is_signed_in
from apps.dashboard.rollout_rows import build_rollout_rows, own_stars, with_judgements
from apps.dashboard.transcript import build_transcript, typed_in
from apps.feedback.interventions import (
    MAX_TEXT_LENGTH,
    CannotAct,
    request_intervention,
    runs_steered_by,
)
from apps.feedback.models import Intervention
from apps.rollouts.models import Rollout
from apps.runs.raters import rated_by

STATUS = {"not_yours": 404, "ended": 409, "used_uuid": 409, "bad_text": 422, "bad_act": 422}
MAX_BODY_BYTES = 8 * MAX_TEXT_LENGTH  # bytes: room for so many characters in JSON, and some more
SIGNED_OUT = "You are signed out. Your text is still here: sign in and send it again."


class Unreadable(Exception):
    """An invalid request; the message says what a valid one looks like."""


@require_safe
@login_required
def follow_rollout(request: SignedInRequest, rollout: int) -> HttpResponse:
    """Members of the project of the rollout's run."""
    visible = Rollout.objects.visible_to(request.user)
    shown_rollout = get_object_or_404(
        with_judgements(visible).select_related("group__task", "run__project"), pk=rollout
    )
    [row] = build_rollout_rows([shown_rollout], request.user)
    context = {
        "section": "live",
        "rollout": shown_rollout,
        "run": shown_rollout.run,
        "card": {
            **row,
            "stars": own_stars([shown_rollout], request.user).get(shown_rollout.pk),
            "may_rate": rated_by(request.user).filter(pk=shown_rollout.run_id).exists(),
        },
        "turns": []
        if shown_rollout.is_sampling
        else build_transcript(shown_rollout, typed_in(shown_rollout)),
        "episode": shown_rollout.episodes.order_by("-fence").first(),
        "may_act": shown_rollout.run_id in runs_steered_by(request.user, [shown_rollout.run]),
        "max_length": MAX_TEXT_LENGTH,
    }
    return render(request, "dashboard/following.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def act_on_rollout(request: HttpRequest, rollout: int, kind: str) -> JsonResponse:
    """People who may steer the run's rollouts: request an action, or ask for its result.

    POST requests the action as JSON, GET with `?client_uuid=` returns the result.
    """
    if not is_signed_in(request):
        return JsonResponse({"detail": SIGNED_OUT}, status=401)
    visible = (
        Rollout.objects.visible_to(request.user).select_related("run").filter(pk=rollout).first()
    )
    if visible is None or visible.run_id not in runs_steered_by(request.user, [visible.run]):
        return JsonResponse(
            {"code": "not_yours", "detail": "reply not found, or you may not steer its run"},
            status=404,
        )
    return (
        _ask(request, rollout, kind)
        if request.method == "POST"
        else _intervention_state(request, rollout, kind)
    )


def _ask(request: SignedInRequest, rollout: int, kind: str) -> JsonResponse:
    try:
        intervention = request_intervention(
            request.user, rollout, kind, *_posted_intervention(request)
        )
    except Unreadable as error:
        return JsonResponse({"detail": str(error)}, status=422)
    except CannotAct as error:
        return JsonResponse({"code": error.code, "detail": f"{error}"}, status=STATUS[error.code])
    return JsonResponse(_state(intervention), status=202)


def _posted_intervention(request: HttpRequest) -> tuple[str, uuid.UUID, int | None]:
    """Return the text, the sender's UUID and the turn. Raise Unreadable."""
    if (
        request.content_type == "multipart/form-data"
    ):  # the body was read for its CSRF token, and cannot be read again
        raise Unreadable("send the action as JSON")
    if len(request.body) > MAX_BODY_BYTES:
        raise Unreadable(f"the text is too long: at most {MAX_TEXT_LENGTH} characters are allowed")
    try:
        posted = json.loads(request.body)
        text = posted.get("text", "")
        turn = posted.get("turn")
        client_uuid = uuid.UUID(posted["client_uuid"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(
            'expected {"client_uuid": "…", "text": "…", "turn": 0}; some actions need no text or'
            " turn"
        ) from error
    if not isinstance(text, str) or not (turn is None or type(turn) is int):
        raise Unreadable("text must be a string and turn an integer")
    return text, client_uuid, turn


def _intervention_state(request: SignedInRequest, rollout: int, kind: str) -> JsonResponse:
    try:
        client_uuid = uuid.UUID(request.GET.get("client_uuid", ""))
    except ValueError:
        return JsonResponse({"detail": "client_uuid is missing or not a UUID"}, status=422)
    intervention = Intervention.objects.filter(
        by=request.user, client_uuid=client_uuid, rollout=rollout, kind=kind
    ).first()
    return (
        JsonResponse(_state(intervention))
        if intervention
        else JsonResponse({"detail": "action not found"}, status=404)
    )


def _state(act: Intervention) -> dict:
    return {"state": act.state, "reason": act.reason}
