"""The page about cost and benefit of ratings: pace, results, agreement, disagreements."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.curves import Series, curves
from apps.dashboard.human_cost_benefit import NEWEST, UPDATES, bought
from apps.dashboard.trends import find_last_values, sketch_series
from apps.feedback.quality.agreeing import agreements
from apps.feedback.quality.decisions import newest_decisions

SHOWN = ("reward_mean", "reward_human")
NAMES = (*SHOWN, "reward_human_std")


@require_safe
@login_required
def what_time_bought(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: it names raters and tells machine rewards."""
    run = steered_run(request, project, slug)
    decisions = newest_decisions(run, NEWEST)
    benefit = bought(run, decisions)
    series = with_spread(curves(run, NAMES)) if benefit.decisions else {}
    context = {
        "section": "runs",
        "run": run,
        "plan": run.settings,
        "bought": benefit,
        "newest": NEWEST,
        "updates": UPDATES,
        "agreements": agreements(decisions) if decisions else [],
        "sketch": sketch_series(series, SHOWN),
        "now": find_last_values(series, SHOWN),
    }
    return render(request, "dashboard/bought.html", context)


@require_safe
@login_required
def bought_curves(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: curves of all rewards and of people's mean."""
    run = steered_run(request, project, slug)
    return JsonResponse({"step": run.step, "series": with_spread(curves(run, NAMES))})


def with_spread(series_by_name: dict[str, Series]) -> dict[str, Series]:
    """Add people's mean minus and plus one standard deviation, where both are known."""
    means = _values_by_step(series_by_name, "reward_human")
    spread = _values_by_step(series_by_name, "reward_human_std")
    steps = sorted(means.keys() & spread.keys())
    ends = {
        name: [means[step] + sign * spread[step] for step in steps]
        for name, sign in (("low", -1), ("high", 1))
    }
    other_series = {
        name: series for name, series in series_by_name.items() if name != "reward_human_std"
    }
    return {**other_series, **{name: {"x": steps, "y": values} for name, values in ends.items()}}


def _values_by_step(series_by_name: dict[str, Series], name: str) -> dict:
    series = series_by_name.get(name, {"x": [], "y": []})
    return dict(zip(series["x"], series["y"], strict=True))
