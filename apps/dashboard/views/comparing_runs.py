"""The page that compares several runs."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard import comparing_evaluations
from apps.dashboard.comparing_runs import (
    AXES,
    LAST,
    MAX_RUNS,
    METRICS,
    NEWEST_GROUPS,
    Final,
    compute_final_means,
    drawn_charts,
    metrics_at,
    overlaid,
    same_tasks,
)
from apps.dashboard.config_diff import list_differing_fields
from apps.dashboard.evaluations import EvaluationQuery
from apps.dashboard.significance import (
    Seeds,
    Versus,
    against_each_other,
    by_seed,
    seeds_at_last_update,
)
from apps.evaluation.metrics import MEASURES
from apps.runs.blind_review import open_among
from apps.runs.models import Run
from apps.runs.models.steps import REWARD

EARLIER_SHOWN = 50
EVALUATED = "evaluations"  # value in place of a metric of steps
MAX_QUERY_LENGTH = 1_000  # longest list of addresses, in characters


@dataclass(frozen=True)
class Chance:
    """The test of whether runs differ in one metric by more than their seeds.

    `of` describes the questions if the metric is an evaluation's.
    """

    of: str
    groups: list[Seeds]
    versus: list[Versus]


@require_safe
@login_required
def compare_runs(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: compare runs of their projects, `runs=project/slug,…`.

    Metrics are those of runs that they do not rate blind.
    """
    runs, missing = _runs(request)
    is_open = open_among(request.user, [run.pk for run in runs])
    visible_runs = [run for run in runs if run.pk in is_open]
    axis = _axis(request)
    metric = _one_of(request, "metric", (*METRICS, EVALUATED), REWARD)
    measured = EvaluationQuery.read(request.GET)
    choice = _one_of(request, "of", comparing_evaluations.CHOICES, "newest")
    finals = compute_final_means(visible_runs)
    beside = comparing_evaluations.of_runs(visible_runs, measured, choice)
    chances = (
        _of_evaluations(visible_runs, beside)
        if metric == EVALUATED
        else [_of_updates(finals, metric)]
    )
    recorded = [name for name in METRICS if any(name in final.last for final in finals)]
    context = {
        "section": "runs",
        "runs": runs,
        "missing": missing,
        "is_open": is_open,
        "shown": visible_runs,
        "axis": axis,
        "axes": AXES,
        "charts": drawn_charts(visible_runs),
        "addresses": ",".join(_address(run) for run in runs),
        "limit": MAX_RUNS,
        "finals": finals,
        "metrics": {name: METRICS[name] for name in recorded},
        "last": LAST,
        "newest_groups": NEWEST_GROUPS,
        "differences": list_differing_fields([run.settings for run in runs])
        if len(runs) > 1
        else [],
        "metric": metric,
        "evaluated": EVALUATED,
        "chances": chances,
        "tasks": same_tasks(runs, request.user) if len(runs) > 1 else [],
        "beside": beside,
        "measured": measured,
        "measures": MEASURES,
        "why": MEASURES[measured.measure],
        "choice": choice,
        "choices": comparing_evaluations.CHOICES,
        "earlier": Run.objects.visible_to(request.user).select_related("project")[:EARLIER_SHOWN],
    }
    return render(request, "dashboard/compare.html", context)


def _one_of(request: SignedInRequest, name: str, allowed: Collection[str], otherwise: str) -> str:
    """Return a parameter of the URL, or `otherwise` without it. Raises Http404 if it is unknown."""
    value = request.GET.get(name, otherwise)
    if value not in allowed:
        raise Http404(f"{name} must be one of {', '.join(allowed)}")
    return value


def _of_updates(finals: list[Final], metric: str) -> Chance:
    runs = [final.run for final in finals if metric in final.last]
    groups = by_seed(runs)
    values = metrics_at(runs, metric)
    return Chance("", seeds_at_last_update(groups, values), against_each_other(groups, values))


def _of_evaluations(runs: list[Run], beside: comparing_evaluations.SideBySide) -> list[Chance]:
    """Return a test for each question set, over the runs' newest or best versions.

    The step of the versions does not matter.
    """
    chances = []
    for question_set in beside.question_sets:
        value_by_run = {
            line.side.pk: value
            for line in question_set.lines
            if line.measured and (value := line.measured.cell.mean.value) is not None
        }
        groups = by_seed([run for run in runs if run.pk in value_by_run])
        values = dict.fromkeys({run.step for run in runs}, value_by_run)
        versus = [
            replace(comparison, step=None) for comparison in against_each_other(groups, values)
        ]
        chances.append(
            Chance(
                f"{question_set.taskset}: {question_set.words}",
                seeds_at_last_update(groups, values),
                versus,
            )
        )
    return chances


@require_safe
@login_required
def compare_curves(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: curves of the runs that they do not rate blind.

    The document is {"series": {metric: {run: {"x": […], "y": […]}}}}.
    """
    runs, _ = _runs(request)
    is_open = open_among(request.user, [run.pk for run in runs])
    axis = _axis(request)
    visible_runs = [run for run in runs if run.pk in is_open]
    names = list(drawn_charts(visible_runs))
    series: dict[str, dict[str, dict]] = {name: {} for name in names}
    for run in visible_runs:
        for name, points in overlaid(run, names, axis).items():
            series[name][_address(run)] = points
    return JsonResponse(
        {"axis": AXES[axis], "runs": [_address(run) for run in runs], "series": series}
    )


def _visible(request: SignedInRequest):
    return Run.objects.visible_to(request.user).select_related("project", "policy", "owner")


def _runs(request: SignedInRequest) -> tuple[list[Run], list[str]]:
    """Return the requested runs in order, and the addresses of runs that do not exist.

    Raises Http404 for too many.
    """
    typed = request.GET.get("runs", "")
    names = list(dict.fromkeys(part.strip() for part in typed.split(",") if part.strip()))
    if len(names) > MAX_RUNS or len(typed) > MAX_QUERY_LENGTH:
        raise Http404(f"compare at most {MAX_RUNS} runs")
    condition = Q()
    for address in names:
        project, _, slug = address.partition("/")
        condition |= Q(project__slug=project, slug=slug)
    runs_by_address = (
        {_address(run): run for run in _visible(request).with_tasksets().filter(condition)}
        if names
        else {}
    )
    return [runs_by_address[address] for address in names if address in runs_by_address], [
        address for address in names if address not in runs_by_address
    ]


def _address(run: Run) -> str:
    return f"{run.project.slug}/{run.slug}"


def _axis(request: SignedInRequest) -> str:
    axis = request.GET.get("x", "step")
    if axis not in AXES:
        raise Http404(f"x must be one of {', '.join(AXES)}")
    return axis
