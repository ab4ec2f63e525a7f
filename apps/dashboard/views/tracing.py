"""Traces: from a weight version back to ratings, and from a rating forward to weights."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, steered_run
from apps.dashboard.paging import load_page
from apps.feedback.answer_texts import rating_in_words
from apps.feedback.models import RaterModel, Rating
from apps.lineage.tracing import (
    UpdateInfluence,
    find_rated_group,
    forward,
    learned_by,
    trace_weights,
)

VERSIONS_OFFERED = 12
RATINGS_SHOWN = 40


@require_safe
@login_required
def trace(
    request: SignedInRequest, project: str, slug: str, version: int | None = None
) -> HttpResponse:
    """Owners and researchers of the project: the origin of a weight version.

    The default is the newest version.
    """
    run = steered_run(request, project, slug)
    versions = run.weight_versions.exclude(state="refused").order_by("-version")
    traced = (
        get_object_or_404(versions, version=version) if version is not None else versions.first()
    )
    assert traced is not None  # every run begins with version 0
    shapings, has_older = trace_weights(traced, _cursor(request))
    numbers = {number for shaping in shapings for number in shaping.models}
    models = {
        model.number: model for model in RaterModel.objects.filter(run=run, number__in=numbers)
    }
    context = {
        "section": "runs",
        "run": run,
        "version": traced,
        "versions": versions[:VERSIONS_OFFERED],
        "rows": [_row(shaping, models) for shaping in shapings],
        "older": shapings[-1].step.number if has_older else None,
        "is_first_page": "before" not in request.GET,
    }
    return render(request, "dashboard/trace.html", context)


@require_safe
@login_required
def show_learned_ratings(
    request: SignedInRequest, project: str, slug: str, number: int
) -> HttpResponse:
    """Owners and researchers of the project: the ratings that a rater model has learned."""
    run = steered_run(request, project, slug)
    model = get_object_or_404(
        RaterModel.objects.select_related("run", "last_rating"), run=run, number=number
    )
    page = load_page(learned_by(model), request)
    context = {
        "section": "runs",
        "run": run,
        "model": model,
        "page": page,
        "rows": [list_rating_fields(r) for r in page.rows],
    }
    return render(request, "dashboard/trace_model.html", context)


@require_safe
@login_required
def rating(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project, and the rater: the steps that used a rating.

    Blind raters do not see these: whether a reply was used reveals its ratings.
    """
    shown_rating = get_object_or_404(
        Rating.objects.visible_to(request.user).select_related(
            "run__project", "rater", "item", "rollout"
        ),
        pk=pk,
    )
    steers = may_steer(request, shown_rating.run)
    if not steers and shown_rating.rater_id != request.user.pk:
        raise Http404("rating not found")
    is_open = may_see_judgements(request, shown_rating.run)
    context = {
        "section": "runs" if steers else "rate",
        "run": shown_rating.run,
        "rating": shown_rating,
        "words": list_rating_fields(shown_rating)["words"],
        "trace": forward(shown_rating) if is_open else None,
        "group": find_rated_group(shown_rating),
        "steers": steers,
        "is_open": is_open,
    }
    return render(request, "dashboard/rating.html", context)


def list_rating_fields(rating: Rating) -> dict:
    """Return a rating's fields for a list."""
    return {"rating": rating, "words": rating_in_words(rating)}


def _row(shaping: UpdateInfluence, models: dict[int, RaterModel]) -> dict:
    used = [(number, count, models.get(number)) for number, count in sorted(shaping.models.items())]
    ratings = shaping.ratings[:RATINGS_SHOWN]
    return {
        "shaping": shaping,
        "ratings": [list_rating_fields(rating) for rating in ratings],
        "more": len(shaping.ratings) - len(ratings),
        "models": used,
    }


def _cursor(request: SignedInRequest) -> int | None:
    text = request.GET.get("before")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Http404("before must be a step number")
    return int(text)
