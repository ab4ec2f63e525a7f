"""A person's own ratings: by day, with what can still be changed, and agreement with others."""

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.paging import load_page
from apps.feedback import my_work
from apps.feedback.models import Rating
from apps.feedback.own_work import known_answers_met, load_decisions_today
from apps.feedback.ratings.answers import Refused
from apps.feedback.ratings.withdrawal import withdraw_decision
from apps.runs.models import Run

ROWS = 25


@require_safe
@login_required
@never_cache
def work(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the own ratings in force, of runs that the person still sees."""
    page = load_page(_ratings_in_force(request), request, size=ROWS)
    rows = my_work.rows(request.user, page.rows)
    agreed, disputed = my_work.with_others(request.user)
    context = {
        "section": "my-work",
        "page": page,
        "rows": rows,
        "days": my_work.days(request.user),
        "today": load_decisions_today(request.user),
        "gold_counts": known_answers_met(request.user),
        "agreed": agreed,
        "disputed": disputed,
        "has_guesses": any(row.guess for row in rows),
    }
    return render(request, "dashboard/my_work.html", context)


@require_POST
@login_required
def change(request: SignedInRequest, pk: int) -> HttpResponse:
    """The rating's author: withdraw it and rate its item again, on the rating page."""
    rating = get_object_or_404(_ratings_in_force(request), pk=pk)
    try:
        held_item, _ = withdraw_decision(request.user, rating.client_uuid, uuid.uuid4())
    except Refused as refused:
        messages.error(request, str(refused))
        return redirect("my-work")
    return redirect(f"{reverse('rate')}?again={held_item.slot_id}")


def _ratings_in_force(request: SignedInRequest) -> QuerySet[Rating]:
    """Return the person's ratings in force, of runs that they see."""
    visible_runs = Run.objects.visible_to(request.user)
    own_ratings = Rating.objects.counting().filter(rater=request.user, run__in=visible_runs)
    return own_ratings.select_related("run__project", "rollout", "item")
