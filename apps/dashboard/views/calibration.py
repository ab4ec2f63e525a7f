"""Calibration of a run's scorers: metrics against people's labels, and the owner's targets."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard import calibration as shown
from apps.dashboard.access import steered_run
from apps.dashboard.knobs import values_in
from apps.feedback.calibration.labels import NEWEST
from apps.feedback.calibration.watching import ALL_FIRST
from apps.feedback.models import Calibration
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.scorer_choice import Trust


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_calibration(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: it shows machine rewards.

    A POST sets the targets of one scorer.
    """
    run = steered_run(request, project, slug)
    posted = None
    wrong: dict[str, str] = {}
    if request.method == "POST":
        posted, wrong = _ask(request, run)
        if not wrong:
            return redirect("run-calibration", project, slug)
    return render(
        request,
        "dashboard/calibration.html",
        _context(request, run, posted, wrong),
        status=422 if wrong else 200,
    )


@require_safe
@login_required
def calibration_now(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the part that changes while people rate."""
    return render(
        request,
        "dashboard/_calibration_now.html",
        _context(request, steered_run(request, project, slug), None, {}),
    )


def _context(
    request: SignedInRequest, run: Run, posted: tuple[str, dict] | None, wrong: dict[str, str]
) -> dict:
    """Return the context; `posted` is a scorer's posted form, `wrong` its errors by field.

    Raises Http404.
    """
    rows = list(_rows(run))
    plan = run.settings
    scorer, begin = _filter(request, [choice.scorer for choice in plan.rewards])
    parted, count = shown.parted(rows, scorer, begin)
    return {
        "section": "runs",
        "run": run,
        "plan": plan,
        "cards": shown.build_scorer_cards(plan, rows, posted, wrong),
        "made_at": max((row.made_at for row in rows), default=None),
        "parted": parted,
        "count": count,
        "scorer": scorer,
        "begin": begin,
        "newest": NEWEST,
        "before": max(0, begin - shown.AT_ONCE) if begin else None,
        "after": begin + shown.AT_ONCE if count > begin + shown.AT_ONCE else None,
        "wrong": wrong,
        "query": request.GET.urlencode(),
    }


@require_safe
@login_required
def calibration_json(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: every metric, for programs."""
    run = steered_run(request, project, slug)
    return JsonResponse(shown.calibration_document(run, _rows(run)))


def _rows(run: Run):
    return Calibration.objects.filter(run=run).order_by("scorer", ALL_FIRST)


def _filter(request: SignedInRequest, scorers: list[str]) -> tuple[str, int]:
    """Return the scorer whose disagreements are shown, and the first place. Raise Http404."""
    scorer = request.GET.get("scorer", "")
    begin = request.GET.get("from", "0")
    if scorer and scorer not in scorers:
        raise Http404(f"this run has no scorer {scorer!r}")
    if not begin.isascii() or not begin.isdigit() or len(begin) > 6:
        raise Http404("from must be a position in the list, a whole number from 0 up")
    return scorer, int(begin)


def _ask(request: SignedInRequest, run: Run) -> tuple[tuple[str, dict], dict[str, str]]:
    """Save the posted targets of a scorer; return the posted form and its errors by field.

    Raises Http404.
    """
    scorer = request.POST.get("scorer", "")
    plan = run.settings
    place = next((n for n, choice in enumerate(plan.rewards) if choice.scorer == scorer), None)
    if place is None:
        raise Http404(f"this run has no scorer {scorer!r}")
    targets = values_in(Trust, request.POST, shown.field_prefix(place))
    asks = any(targets[name] is not None for name in ("accuracy", "kappa", "order"))
    rewards = [choice.model_dump(mode="json") for choice in plan.rewards]
    rewards[place]["trust"] = targets if asks else None
    try:
        run.change_config(request.user, rewards=rewards)
    except ConfigError as error:
        prefix = f"rewards.{place}.trust."
        fields = {
            name.removeprefix(prefix): words
            for name, words in error.problems.items()
            if name.startswith(prefix)
        }
        if not fields:
            messages.error(request, "; ".join(error.problems.values()))
        return (scorer, targets), fields or error.problems
    messages.success(
        request,
        f"Target for {scorer} {'saved' if asks else 'removed'}.",
    )
    return (scorer, targets), {}
