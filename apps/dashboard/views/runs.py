"""The page of a run: its state, curves, ledger, weights, workers and newest rollouts."""

from collections.abc import Iterable

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.buffer.models import Snapshot
from apps.dashboard.access import may_see_judgements, may_steer, seen_run
from apps.dashboard.curves import AXES
from apps.dashboard.environments import find_played_environment
from apps.dashboard.fragments import if_changed
from apps.dashboard.ledger import drop_reasons, load_ledger, skipped_steps, workers_for
from apps.dashboard.overview import ChartQuery, build_charts_overview
from apps.dashboard.people_now import people_now
from apps.dashboard.rollout_rows import newest_rollouts
from apps.dashboard.serving import serving_now
from apps.feedback.calibration.watching import alarm_sentence, list_current_alarms
from apps.feedback.models import Suspicion, rating_counts
from apps.rewards.hacking import TITLES
from apps.rollouts.excluded_tasks import quarantined, too_long
from apps.runs.algorithms.describing import describe_parts, reading_parts
from apps.runs.algorithms.table import TABLE
from apps.runs.models import Run, RunRemoval, WeightVersion
from apps.runs.run_repeats import can_run_again

VERSIONS_SHOWN = 5
ROLLOUTS_SHOWN = 8
WORKERS_SHOWN = 12
PARTS = ("now", "beside", "newest")


@require_safe
@login_required
def show_run(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project. An evaluation has no curves: its metrics are its page."""
    try:
        run = seen_run(request, project, slug)
    except Http404:
        if removal := RunRemoval.objects.following(request.user, project, slug):
            return redirect("run-deletion", removal.pk)
        raise
    query = ChartQuery(request.GET)
    if run.is_evaluation:
        return redirect("run-evaluations", project, slug)
    is_open = may_see_judgements(request, run)
    now = _now(run, is_open)
    steers = may_steer(request, run)
    context = {
        "section": "runs",
        "run": run,
        "sequence": run.topic.sequence,
        "query": query,
        "axes": AXES,
        "overview": build_charts_overview(run, query, now["ledger"].metrics) if is_open else None,
        "may_steer": steers,
        "is_open": is_open,
        **now,
        **_newest(request, run, is_open),
        "suspicions": _suspicions(run) if steers else [],
    }
    return render(request, "dashboard/run.html", context)


@require_safe
@login_required
def run_part(request: SignedInRequest, project: str, slug: str, part: str) -> HttpResponse:
    """Members of the run's project: a fragment of the run's page by itself."""
    run = seen_run(request, project, slug)
    if part not in PARTS:
        raise Http404(part)
    return if_changed(
        request,
        render_run_parts(request, run, [part], may_see_judgements(request, run))[part],
    )


def render_run_parts(
    request: SignedInRequest, run: Run, names: Iterable[str], is_open: bool
) -> dict[str, str]:
    """Return the HTML of these fragments of the run's page."""
    names = set(names)
    steers = may_steer(request, run)
    context = {"run": run, "is_open": is_open, "may_steer": steers}
    if names & {"now", "beside"}:
        context |= _now(run, is_open) | {
            "suspicions": _suspicions(run) if steers and "now" in names else []
        }
    if "newest" in names:
        context |= _newest(request, run, is_open)
    return {
        name: render_to_string(f"dashboard/_run_{name}.html", context, request)
        for name in PARTS
        if name in names
    }


def _now(run: Run, is_open: bool) -> dict:
    """Return the context beside the curves; for blind raters without anything about ratings."""
    ledger = load_ledger(run, is_open)
    plan = run.settings
    recipe = describe_parts(plan.algorithm) | reading_parts(plan.reading)
    return {
        "ledger": ledger,
        "plan": plan,
        "runs_again": can_run_again(run),
        "versions": _newest_versions(run) if is_open else [],
        "reasons": drop_reasons(run) if is_open else [],
        "recipe": {name: words for name, words in recipe.items() if words not in ("-", "none")},
        "alarms": [alarm_sentence(row, row.alarm) for row in list_current_alarms(run)]
        if is_open
        else [],
        "row": TABLE[plan.algorithm.name],
        "skipped": skipped_steps(run),
        "quarantined": quarantined(run).count() if is_open else 0,
        "too_long": too_long(run).count(),
        "snapshot": (
            Snapshot.objects.filter(run=run).first() if plan.algorithm.learns_from_lessons else None
        ),
        "ratings": rating_counts(run.pk),
        "people": people_now(run) if plan.people.per_group else None,
        "workers": workers_for(run, WORKERS_SHOWN),
        "played": find_played_environment(run),
        "serving": serving_now(run) if plan.serve else None,
        "shared": list(run.shared) if plan.tasksets else [],
    }


def _suspicions(run: Run) -> list[str]:
    """Return the titles of open suspicions, for people who steer the run.

    Raters must not know them: they would look for it.
    """
    kinds = (
        run.suspicions.filter(state=Suspicion.State.OPEN)
        .order_by("pk")
        .values_list("kind", flat=True)
    )
    return [TITLES.get(kind, kind) for kind in kinds]


def _newest_versions(run: Run) -> list[WeightVersion]:
    """Return the newest weight versions with their slowest load and widest probe gap."""
    newest = run.weight_versions.order_by("-version").values("pk")[:VERSIONS_SHOWN]
    annotated = WeightVersion.objects.filter(pk__in=newest).annotate(
        engines=Count("acknowledgements"),
        milliseconds=Max("acknowledgements__milliseconds"),
        gap=Max("acknowledgements__probe_gap"),
    )
    return list(annotated.order_by("-version"))


def _newest(request: SignedInRequest, run: Run, is_open: bool) -> dict:
    return {"rollouts": newest_rollouts(run, ROLLOUTS_SHOWN, request.user, is_open)}
