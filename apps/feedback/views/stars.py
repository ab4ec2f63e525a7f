"""The view that takes stars for a rollout, from the live wall and the rollout's page."""

import uuid

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from apps.accounts.requests import SignedInRequest
from apps.feedback.ratings.stars import (
    EnoughRated,
    NotHeld,
    NotRatable,
    Stars,
    UsedForAnother,
    give,
)
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.blind_review import sees_judgements


class StarsForm(forms.Form):
    stars = forms.IntegerField(min_value=1, max_value=5)
    client_uuid = forms.UUIDField(required=False)


@require_POST
@login_required
def save_stars(request: SignedInRequest, rollout: int) -> HttpResponse:
    """Save stars, for users who may rate in the rollout's project.

    Answers with the reply's current judgements.
    """
    form = StarsForm(request.POST)
    if not form.is_valid():
        return HttpResponse(
            "Stars must be a whole number from 1 to 5.", status=422, content_type="text/plain"
        )
    if not Rollout.objects.visible_to(request.user).filter(pk=rollout).exists():
        raise Http404("the rollout doesn’t exist")
    data = form.cleaned_data
    try:
        rating = give(
            request.user, Stars(rollout, data["stars"], data["client_uuid"] or uuid.uuid4())
        )
    except NotRatable as error:
        return _refusal(rollout, error)
    if not request.headers.get("X-Requested-With"):
        return redirect(_back(request, rollout))
    judgements = (
        Reward.objects.filter(rollout=rollout, is_current=True)
        .select_related("by")
        .order_by("source", "scorer", "pk")
    )
    if not sees_judgements(request.user, rating.run):
        judgements = judgements.filter(by=request.user)
    return render(
        request, "feedback/_taken.html", {"rating": rating, "judgements": judgements}, status=201
    )


def _refusal(rollout: int, error: NotRatable) -> HttpResponse:
    """Return a 409 in words; for a reply that is still being written it tells stars.js to retry."""
    if isinstance(error, NotHeld | EnoughRated | UsedForAnother):
        return HttpResponse(str(error), status=409, content_type="text/plain")
    rollout_row = Rollout.objects.get(pk=rollout)
    if rollout_row.is_sampling:
        message = "This reply is not complete yet. Your stars are sent when it is."
        return HttpResponse(
            message, status=409, content_type="text/plain", headers={"X-Retry": "when-finished"}
        )
    message = (
        "This reply failed, so there is nothing to rate."
        if rollout_row.state == Rollout.State.FAILED
        else f"You can view this reply but not rate it: {error}."
    )
    return HttpResponse(message, status=409, content_type="text/plain")


def _back(request: HttpRequest, rollout: int) -> str:
    """Return a page of ours to go back to when the browser runs no script."""
    return "rate" if request.POST.get("from") != "rollout" else f"/rollouts/{rollout}/"
