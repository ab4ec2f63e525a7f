"""The page of a run: its state, curves, ledger, weights, workers and newest rollouts."""

from collections.abc import Iterable

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from apps.buffer.models import Snapshot
from apps.dashboard.access import may_steer, seen_run
from apps.dashboard.curves import AXES
from apps.dashboard.environments import played_by
from apps.dashboard.fragments import unless_known
from apps.dashboard.ledger import drop_reasons, ledger_of, skipped_steps, workers_for
from apps.dashboard.overview import Asked, overview_of
from apps.dashboard.people_now import people_now
from apps.dashboard.rollout_rows import newest_rollouts
from apps.dashboard.serving import serving_now
from apps.feedback.calibration.watching import alarms_of, told
from apps.feedback.models import Suspicion, rating_counts
from apps.rewards.hacking import TITLES
from apps.rollouts.left_out import quarantined, too_long
from apps.runs.again import can_run_again
from apps.runs.algorithms.describing import parts, reading_parts
from apps.runs.algorithms.table import TABLE
from apps.runs.blindness import sees_judgements
from apps.runs.models import Run, WeightVersion

VERSIONS_SHOWN, ROLLOUTS_SHOWN, WORKERS_SHOWN = 5, 8, 12
PARTS = ("now", "beside", "newest")


@gzip_page
@require_safe
@login_required
def run(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project. An evaluation has no curves: its figures are its page."""
    found, asked = seen_run(request, project, slug), Asked(request.GET)
    if found.is_evaluation:
        return redirect("run-evaluations", project, slug)
    is_open = sees_judgements(request.user, found)
    now, steers = _now(found, is_open), may_steer(request, found)
    context = {
        "section": "runs", "run": found, "sequence": found.topic.sequence, "asked": asked, "axes": AXES,
        "overview": overview_of(found, asked, now["ledger"].figures) if is_open else None,
        "may_steer": steers, "is_open": is_open, **now, **_newest(request, found, is_open),
        "suspicions": _suspicions(found) if steers else [],
    }  # fmt: skip
    return render(request, "dashboard/run.html", context)


@gzip_page
@require_safe
@login_required
def run_part(request: HttpRequest, project: str, slug: str, part: str) -> HttpResponse:
    """Members of the run's project: a fragment of the run's page by itself."""
    found = seen_run(request, project, slug)
    if part not in PARTS:
        raise Http404(part)
    return unless_known(request, parts_of(request, found, [part], sees_judgements(request.user, found))[part])


def parts_of(request: HttpRequest, run: Run, names: Iterable[str], is_open: bool) -> dict[str, str]:
    """The HTML of these fragments of the run's page."""
    names, steers = set(names), may_steer(request, run)
    context = {"run": run, "is_open": is_open, "may_steer": steers}
    if names & {"now", "beside"}:
        context |= _now(run, is_open) | {"suspicions": _suspicions(run) if steers and "now" in names else []}
    if "newest" in names:
        context |= _newest(request, run, is_open)
    return {name: render_to_string(f"dashboard/_run_{name}.html", context, request) for name in PARTS if name in names}


def _now(run: Run, is_open: bool) -> dict:
    """What stands on the page beside its curves; for who judges blind, without what tells how replies were judged."""
    ledger, plan = ledger_of(run, is_open), run.settings
    recipe = parts(plan.algorithm) | reading_parts(plan.reading)
    return {
        "ledger": ledger, "plan": plan, "runs_again": can_run_again(run),
        "versions": _newest_versions(run) if is_open else [], "reasons": drop_reasons(run) if is_open else [],
        "recipe": {name: words for name, words in recipe.items() if words not in ("-", "none")},
        "alarms": [told(row, row.alarm) for row in alarms_of(run)] if is_open else [],
        "row": TABLE[plan.algorithm.name], "skipped": skipped_steps(run),
        "quarantined": quarantined(run).count() if is_open else 0, "too_long": too_long(run).count(),
        "snapshot": Snapshot.objects.filter(run=run).first() if plan.algorithm.learns_from_lessons else None,
        "ratings": rating_counts(run.pk),
        "people": people_now(run) if plan.people.per_group else None,
        "workers": workers_for(run, WORKERS_SHOWN), "played": played_by(run),
        "serving": serving_now(run) if plan.serve else None, "shared": list(run.shared) if plan.tasksets else [],
    }  # fmt: skip


def _suspicions(run: Run) -> list[str]:
    """What the run is suspected of, in words, for who steers it: a rater who knew would look for it."""
    found = run.suspicions.filter(state=Suspicion.State.OPEN).order_by("pk").values_list("kind", flat=True)
    return [TITLES.get(kind, kind) for kind in found]


def _newest_versions(run: Run) -> list[WeightVersion]:
    """The last weight versions with the slowest load and the widest probe gap among their engines."""
    newest = run.weight_versions.order_by("-version").values("pk")[:VERSIONS_SHOWN]
    told = WeightVersion.objects.filter(pk__in=newest).annotate(
        engines=Count("acknowledgements"),
        milliseconds=Max("acknowledgements__milliseconds"),
        gap=Max("acknowledgements__probe_gap"),
    )
    return list(told.order_by("-version"))


def _newest(request: HttpRequest, run: Run, is_open: bool) -> dict:
    return {"rollouts": newest_rollouts(run, ROLLOUTS_SHOWN, request.user, is_open)}
