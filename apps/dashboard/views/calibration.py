"""How far each scorer of a run is calibrated: its figures against people's labels, and what its owner asks of it."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

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
def calibration(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: it tells machine rewards. A POST says what is asked of one scorer."""
    run = steered_run(request, project, slug)
    said, wrong = None, {}
    if request.method == "POST":
        said, wrong = _ask(request, run)
        if not wrong:
            return redirect("run-calibration", project, slug)
    return render(request, "dashboard/calibration.html", _context(request, run, said, wrong), status=422 if wrong else 200)


@require_safe
@login_required
def calibration_now(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: what of the page moves while people judge."""
    return render(request, "dashboard/_calibration_now.html", _context(request, steered_run(request, project, slug), None, {}))


def _context(request: HttpRequest, run: Run, said: tuple[str, dict] | None, wrong: dict[str, str]) -> dict:
    """`said`: what was just posted of one scorer, and what is `wrong` in it by field. Raises Http404."""
    rows, plan = list(_rows(run)), run.settings
    scorer, begin = _filter(request, [choice.scorer for choice in plan.rewards])
    parted, count = shown.parted(rows, scorer, begin)
    return {
        "section": "runs", "tab": "calibration", "run": run, "plan": plan, "cards": shown.cards(plan, rows, said, wrong),
        "made_at": max((row.made_at for row in rows), default=None), "parted": parted, "count": count, "scorer": scorer,
        "begin": begin, "newest": NEWEST, "before": max(0, begin - shown.AT_ONCE) if begin else None,
        "after": begin + shown.AT_ONCE if count > begin + shown.AT_ONCE else None,
        "wrong": wrong, "asked": request.GET.urlencode(),
    }  # fmt: skip


@require_safe
@login_required
def calibration_json(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: every figure, for programs."""
    run = steered_run(request, project, slug)
    return JsonResponse(shown.document(run, _rows(run)))


def _rows(run: Run):
    return Calibration.objects.filter(run=run).order_by("scorer", ALL_FIRST)


def _filter(request: HttpRequest, scorers: list[str]) -> tuple[str, int]:
    """Whose disagreements, and from which on. Raises Http404."""
    scorer, begin = request.GET.get("scorer", ""), request.GET.get("from", "0")
    if scorer and scorer not in scorers:
        raise Http404(f"this run has no scorer {scorer!r}")
    if not begin.isascii() or not begin.isdigit() or len(begin) > 6:
        raise Http404("from must be a place in the list, a whole number from 0")
    return scorer, int(begin)


def _ask(request: HttpRequest, run: Run) -> tuple[tuple[str, dict], dict[str, str]]:
    """Write what is asked of the posted scorer; what was said of it, and what is wrong by field. Raises Http404."""
    scorer, plan = request.POST.get("scorer", ""), run.settings
    place = next((n for n, choice in enumerate(plan.rewards) if choice.scorer == scorer), None)
    if place is None:
        raise Http404(f"this run has no scorer {scorer!r}")
    said = values_in(Trust, request.POST, shown.prefix_of(place))
    asks = any(said[name] is not None for name in ("accuracy", "kappa", "order"))
    rewards = [choice.model_dump(mode="json") for choice in plan.rewards]
    rewards[place]["trust"] = said if asks else None
    try:
        run.change_config(request.user, rewards=rewards)
    except ConfigError as error:
        own = f"rewards.{place}.trust."
        fields = {name.removeprefix(own): words for name, words in error.problems.items() if name.startswith(own)}
        if not fields:
            messages.error(request, "; ".join(error.problems.values()))
        return (scorer, said), fields or error.problems
    messages.success(request, f"Changed: {'this is asked' if asks else 'nothing is asked'} of {scorer} from now on.")
    return (scorer, said), {}
