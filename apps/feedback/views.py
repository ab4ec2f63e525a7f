"""The rating desk: one group of replies at a time, and the one address that takes stars."""

import uuid

from django import forms
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.feedback.models import NotRatable, Rating, Submission, queue_for
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

MOST_SKIPPED = 50


class StarsForm(forms.Form):
    stars = forms.IntegerField(min_value=1, max_value=5)
    client_uuid = forms.UUIDField(required=False)


@require_safe
@login_required
def desk(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the most urgent group that waits for them, not among `?skip=`, of `?run=` if given."""
    skipped = _numbers(request, "skip")
    waiting = queue_for(request.user).exclude(group__in=skipped)
    if run := _numbers(request, "run"):
        waiting = waiting.filter(run=run[0])
    first = waiting.select_related("group__task", "group__run__project").first()
    context = {"section": "rate", **(_group(request, first.group, skipped) if first else _done_today(request, skipped))}
    return render(request, "feedback/_desk.html" if request.htmx else "feedback/desk.html", context)


@require_POST
@login_required
def rate(request: HttpRequest, rollout: int) -> HttpResponse:
    """Those who may rate in the rollout's project. Answers with what the reply's judges have said by now."""
    form = StarsForm(request.POST)
    if not form.is_valid():
        return HttpResponse("Stars are a whole number from 1 to 5.", status=422, content_type="text/plain")
    if not Rollout.objects.visible_to(request.user).filter(pk=rollout).exists():
        raise Http404("no such rollout")
    data = form.cleaned_data
    try:
        rating = Rating.submit(request.user, Submission(rollout, data["stars"], data["client_uuid"] or uuid.uuid4()))
    except NotRatable as error:
        return _refusal(rollout, error)
    if not request.headers.get("X-Requested-With"):
        return redirect(_back(request))
    judgements = Reward.objects.filter(rollout=rollout, is_current=True).select_related("by").order_by("source", "scorer", "pk")
    return render(request, "feedback/_taken.html", {"rating": rating, "judgements": judgements}, status=201)


def _group(request: HttpRequest, group: Group, skipped: list[int]) -> dict:
    rollouts = list(group.rollouts.filter(state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY).order_by("sample_index"))
    given = dict(Rating.objects.filter(rater=request.user, rollout__in=rollouts).order_by("pk").values_list("rollout_id", "stars"))
    left = max(0, round((group.deadline_at - timezone.now()).total_seconds())) if group.deadline_at else None
    return {
        "group": group, "run": group.run, "answers": [{"rollout": rollout, "stars": given.get(rollout.pk)} for rollout in rollouts],
        "left": left, "skip_next": ",".join(map(str, [*skipped, group.pk][-MOST_SKIPPED:])),
    }  # fmt: skip


def _done_today(request: HttpRequest, skipped: list[int]) -> dict:
    """What an empty desk tells: how much this person has rated today, and whether skipped groups are still there."""
    since = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    mine = Rating.objects.filter(rater=request.user, at__gte=since)
    asking = (
        Run.objects.visible_to(request.user).running().filter(config__people__per_group__gt=0).select_related("project").first()
    )
    said = mine.aggregate(rated_today=Count("pk"), late_today=Count("pk", filter=Q(is_late=True)))
    return {"group": None, "skipped": len(skipped), "asking": asking, **said}


def _refusal(rollout: int, error: NotRatable) -> HttpResponse:
    """409 in words; a reply that is still being written may be tried again, and the answer says so to rate.js."""
    found = Rollout.objects.get(pk=rollout)
    if found.is_sampling:
        words = "This reply is still being written. Your stars are kept and sent when it is complete."
        return HttpResponse(words, status=409, content_type="text/plain", headers={"X-Retry": "when-finished"})
    words = (
        "This reply failed and has nothing to rate."
        if found.state == Rollout.State.FAILED
        else f"You may look but not rate here: {error}."
    )
    return HttpResponse(words, status=409, content_type="text/plain")


def _numbers(request: HttpRequest, name: str) -> list[int]:
    parts = [part for part in request.GET.get(name, "").split(",") if part]
    if len(parts) > MOST_SKIPPED or not all(part.isascii() and part.isdigit() and len(part) < 18 for part in parts):
        raise Http404(f"{name} must be numbers with commas between")
    return [int(part) for part in parts]


def _back(request: HttpRequest) -> str:
    """A page of ours to return to when the browser runs no script."""
    return "rate" if request.POST.get("from") != "rollout" else f"/rollouts/{request.resolver_match.kwargs['rollout']}/"
