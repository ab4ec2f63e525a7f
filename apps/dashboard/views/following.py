"""One rollout followed large on the live wall, and what its watchers may do to it while it is written."""

import json
import uuid

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.dashboard.rollout_rows import own_stars, rows, with_judgements
from apps.dashboard.transcript import transcript_of, typed_in
from apps.feedback.interventions import LONGEST, CannotAct, ask, runs_steered_by
from apps.feedback.models import Intervention
from apps.rollouts.models import Rollout
from apps.runs.raters import rated_by

STATUS = {"not_yours": 404, "ended": 409, "used_uuid": 409, "bad_text": 422, "bad_act": 422}
LONGEST_BODY = 8 * LONGEST  # bytes: what JSON may need for so many characters, and some
SIGNED_OUT = "You are not signed in any more. What you typed is kept here: sign in and send it."


class Unreadable(Exception):
    """What was posted is no act; the message says what one looks like."""


@require_safe
@login_required
def follow(request: HttpRequest, rollout: int) -> HttpResponse:
    """Members of the project of the rollout's run."""
    visible = Rollout.objects.visible_to(request.user)
    found = get_object_or_404(with_judgements(visible).select_related("group__task", "run__project"), pk=rollout)
    [row] = rows([found], request.user)
    context = {
        "section": "live", "rollout": found, "run": found.run,
        "card": {
            **row, "stars": own_stars([found], request.user).get(found.pk),
            "may_rate": rated_by(request.user).filter(pk=found.run_id).exists(),
        },
        "said": [] if found.is_sampling else transcript_of(found, typed_in(found)),
        "episode": found.episodes.order_by("-fence").first(),
        "may_act": found.run_id in runs_steered_by(request.user, [found.run]), "longest": LONGEST,
    }  # fmt: skip
    return render(request, "dashboard/following.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def act(request: HttpRequest, rollout: int, kind: str) -> JsonResponse:
    """Those who may steer the run's rollouts: POST asks for the act as JSON, GET `?client_uuid=` says what became of it."""
    if not request.user.is_authenticated:
        return JsonResponse({"detail": SIGNED_OUT}, status=401)
    found = Rollout.objects.visible_to(request.user).select_related("run").filter(pk=rollout).first()
    if found is None or found.run_id not in runs_steered_by(request.user, [found.run]):
        return JsonResponse({"code": "not_yours", "detail": "there is no such answer that you may steer"}, status=404)
    return _ask(request, rollout, kind) if request.method == "POST" else _what_became(request, rollout, kind)


def _ask(request: HttpRequest, rollout: int, kind: str) -> JsonResponse:
    try:
        done = ask(request.user, rollout, kind, *_posted(request))
    except Unreadable as error:
        return JsonResponse({"detail": str(error)}, status=422)
    except CannotAct as error:
        return JsonResponse({"code": error.code, "detail": f"{error}"}, status=STATUS[error.code])
    return JsonResponse(_state(done), status=202)


def _posted(request: HttpRequest) -> tuple[str, uuid.UUID, int | None]:
    """The text, the sender's uuid and the turn. Raises Unreadable."""
    if request.content_type == "multipart/form-data":  # it has been read for its token, and cannot be again
        raise Unreadable("an act is sent as JSON")
    if len(request.body) > LONGEST_BODY:
        raise Unreadable(f"the text is too long; at most {LONGEST} characters are taken")
    try:
        posted = json.loads(request.body)
        text, turn = posted.get("text", ""), posted.get("turn")
        client_uuid = uuid.UUID(posted["client_uuid"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable('an act is {"client_uuid": "…", "text": "…", "turn": 0}; text and turn as the act needs them') from error
    if not isinstance(text, str) or not (turn is None or type(turn) is int):
        raise Unreadable("text is words, turn a whole number")
    return text, client_uuid, turn


def _what_became(request: HttpRequest, rollout: int, kind: str) -> JsonResponse:
    try:
        client_uuid = uuid.UUID(request.GET.get("client_uuid", ""))
    except ValueError:
        return JsonResponse({"detail": "client_uuid is missing, or is no uuid"}, status=422)
    asked = Intervention.objects.filter(by=request.user, client_uuid=client_uuid, rollout=rollout, kind=kind).first()
    return JsonResponse(_state(asked)) if asked else JsonResponse({"detail": "you have asked for no such act"}, status=404)


def _state(act: Intervention) -> dict:
    return {"state": act.state, "reason": act.reason}
