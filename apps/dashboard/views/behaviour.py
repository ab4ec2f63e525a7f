"""What changed in the replies of one weight version to another: clusters, and a blind arena."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.comparing_evaluations import QuestionSet, of_versions
from apps.dashboard.evaluations import EvaluationQuery
from apps.evaluation.arena.making import create_arena
from apps.evaluation.behaviour.clusters import behaviour_of
from apps.evaluation.behaviour.reading import MAX_PAIRS, MAX_REPLY_LENGTH, pairs_of
from apps.runs.config import ConfigError
from apps.runs.models import Run, WeightVersion

MEASURE = EvaluationQuery("pass", 1)  # any one does: only the evaluations are needed


@dataclass(frozen=True)
class Evaluated:
    """A taskset on which both versions were evaluated, with the newest evaluation of each."""

    taskset: str
    words: str
    one: str
    other: str


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def behaviour(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members who do not judge the run blind: `?one=3&other=5`, on the taskset `?on=`.

    Owners and researchers open a blind arena of both evaluations (POST).
    """
    run = (steered_run if request.method == "POST" else seen_run)(request, project, slug)
    if not may_see_judgements(request, run):
        raise PermissionDenied("You rate this run blind, so results of its versions are hidden.")
    versions = [_version(run, request.GET, name) for name in ("one", "other")]
    offered = [
        evaluated
        for evaluated in map(_find_evaluations, of_versions(versions, MEASURE).question_sets)
        if evaluated
    ]
    chosen = _chosen_version(offered, request.GET.get("on", ""))
    context = {
        "section": "runs",
        "run": run,
        "versions": versions,
        "offered": offered,
        "chosen": chosen,
        "may_steer": may_steer(request, run),
        "limit": MAX_PAIRS,
        "max_length": MAX_REPLY_LENGTH,
    }
    if chosen is not None:
        sides = [run.project.runs.get(slug=name) for name in (chosen.one, chosen.other)]
        if request.method == "POST":
            return _confirm(request, run, chosen.taskset, sides)
        context["behaviour"] = behaviour_of(pairs_of(sides[0], sides[1]))
    elif request.method == "POST":
        raise Http404("no taskset on which both versions were evaluated")
    return render(request, "dashboard/behaviour.html", context)


def _confirm(request: SignedInRequest, run: Run, taskset: str, sides: list[Run]) -> HttpResponse:
    """Open a blind arena of two evaluations; its title names no version."""
    title = f"{taskset}, two versions of {run.slug}"
    try:
        new_arena = create_arena(
            run.project, request.user, title[:100], [side.pk for side in sides]
        )
    except ConfigError as wrong:
        messages.error(request, "; ".join(wrong.problems.values()).capitalize() + ".")
        page_url = reverse("run-behaviour", args=[run.project.slug, run.slug])
        return redirect(f"{page_url}?{urlencode(request.GET)}")
    messages.success(request, "Arena created. All raters of this project find it under Rate.")
    return redirect("arena", run.project.slug, new_arena.pk)


def _version(run: Run, query: QueryDict, name: str) -> WeightVersion:
    """Return the version that the URL names. Raise Http404."""
    number = query.get(name, "")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise Http404(f"{name} must be the number of a version")
    version = run.weight_versions.filter(version=int(number)).first()
    if version is None:
        raise Http404(f"version {number} not found")
    return version


def _find_evaluations(question_set: QuestionSet) -> Evaluated | None:
    """Return the evaluations of a set of tasks, None unless both versions have a complete one."""
    slugs = [line.measured.cell.slug for line in question_set.lines if line.measured]
    if len(question_set.lines) < 2 or len(slugs) < len(question_set.lines):
        return None
    slug, other_slug = slugs
    return Evaluated(question_set.taskset, question_set.words, slug, other_slug)


def _chosen_version(offered: list[Evaluated], version_name: str) -> Evaluated | None:
    requested = next((evaluated for evaluated in offered if evaluated.one == version_name), None)
    return requested or next(iter(offered), None)
