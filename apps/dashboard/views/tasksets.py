"""Tasksets: the list, and one set with its tasks and rejected lines."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.form_fields import model_field
from apps.dashboard.paging import load_page
from apps.dashboard.successes import Histogram, find_hardest_and_easiest, histograms
from apps.rollouts.task_requests import TaskRequest
from apps.runs.models import NotPossible, Run
from apps.tasksets.models import Taskset, TasksetImport

QUARANTINED_SHOWN = 100
PROJECTS_SHOWN = 20
IMPORTS_SHOWN = 20
RUNS_SHOWN = 10
SCALES_SHOWN = 10
VERSIONS_SHOWN = 20
MADE_SHOWN = 20
WAITING_SHOWN = 20
TASKS_SHOWN = 50


def _first_index(request: SignedInRequest) -> int:
    text = request.GET.get("from", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Http404("from must be the index of a task")
    return int(text)


class AskForm(forms.Form):
    """The index of a requested task, and the slug of its set."""

    taskset = forms.ModelChoiceField(Taskset.objects.none(), to_field_name="slug")
    task = forms.IntegerField(min_value=0, max_value=2**31 - 1)

    def __init__(self, run: Run, *args: Any) -> None:
        super().__init__(*args)
        model_field(self, "taskset").queryset = run.project.tasksets.all()


@require_POST
@login_required
def request_task(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: request that the run samples a task next."""
    run = steered_run(request, project, slug)
    form = AskForm(run, request.POST)
    if form.is_valid():
        _ask(request, run, form.cleaned_data["taskset"], form.cleaned_data["task"])
    else:
        field, reasons = next(iter(form.errors.items()))
        messages.error(request, f"Not requested: {field}: {reasons[0]}")
    requested = form.cleaned_data.get("taskset") or run.tasksets[0]
    return redirect("taskset", run.project.slug, requested.slug)


def _ask(request: SignedInRequest, run: Run, taskset: Taskset, index: int) -> None:
    try:
        is_new = TaskRequest.submit(run, taskset, index, request.user)
        messages.success(
            request,
            (
                f"{run.slug} "
                f"{'will sample' if is_new else 'was already going to sample'} task "
                f"{index:,} next."
            ),
        )
    except NotPossible as refused:
        messages.error(request, f"Not requested: {refused}")


def _runs_taking_requests(request: SignedInRequest, runs: Sequence[Run]) -> list[Run]:
    """Return the runs that sample requested tasks, and that the user may steer."""
    live = [
        run
        for run in runs
        if run.state not in Run.ENDED and run.settings.selection.name == "people"
    ]
    steered = Run.objects.steered_by(request.user).filter(pk__in=[run.pk for run in live])
    steered_ids = set(steered.values_list("pk", flat=True))
    return [run for run in live if run.pk in steered_ids]


def _waiting(asking: Sequence[Run], taskset: Taskset) -> list[TaskRequest]:
    """Return the requests for tasks of this set that are still waiting."""
    requests = TaskRequest.objects.filter(run__in=asking, task__taskset=taskset).waiting()
    return list(requests.select_related("run", "task", "by")[:WAITING_SHOWN])


def _chosen_run(slug: str | None, drawn_histograms: Sequence[Histogram]) -> Run | None:
    """Return the run whose hardest and easiest tasks are shown: the named one, else the newest.

    Raises Http404.
    """
    if slug is None:
        return drawn_histograms[0].run if drawn_histograms else None
    chosen = next(
        (histogram.run for histogram in drawn_histograms if histogram.run.slug == slug), None
    )
    if chosen is None:
        raise Http404("no run of that name has tried tasks of this set")
    return chosen


@require_safe
@login_required
def tasksets(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the tasksets of their projects.

    Running imports are shown to those who run the project.
    """
    visible = Taskset.objects.visible_to(request.user).select_related("project")
    visible = visible.filter(project__archived_at=None)
    projects = Project.objects.run_by(request.user).current().order_by("slug")[:PROJECTS_SHOWN]
    under_way = (
        TasksetImport.objects.run_by(request.user)
        .exclude(state__in=TasksetImport.OVER)
        .select_related("project")
    )
    context = {
        "section": "tasksets",
        "page": load_page(visible, request),
        "projects": projects,
        "imports": under_way[:IMPORTS_SHOWN],
    }
    return render(request, "dashboard/tasksets.html", context)


@require_safe
@login_required
def show_taskset(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the project; success rates are for those who see a run's ratings.

    Answers are never shown here.
    """
    taskset = get_object_or_404(
        Taskset.objects.visible_to(request.user).select_related("project"),
        project__slug=project,
        slug=slug,
    )
    first = _first_index(request)
    tasks = taskset.tasks.defer("answer", "descent__parent__answer").select_related(
        "descent__parent__taskset"
    )
    tasks = list(tasks.filter(index__gte=first).order_by("index")[:TASKS_SHOWN])
    runs = list(Run.objects.drawing_from(taskset).select_related("project")[:RUNS_SHOWN])
    drawn_histograms = histograms(taskset, runs, request.user)
    asking = _runs_taking_requests(request, runs)
    chosen = _chosen_run(request.GET.get("run"), drawn_histograms)
    context = {
        "section": "tasksets",
        "taskset": taskset,
        "tasks": tasks,
        "first": first,
        "previous": max(0, first - TASKS_SHOWN),
        "next": first + TASKS_SHOWN if first + TASKS_SHOWN < taskset.size else None,
        "may_run": Project.objects.run_by(request.user).filter(pk=taskset.project_id).exists(),
        "versions": taskset.versions[:VERSIONS_SHOWN],
        "quarantined": taskset.quarantined_lines.all()[:QUARANTINED_SHOWN],
        "runs": runs,
        "histograms": drawn_histograms,
        "ends": find_hardest_and_easiest(taskset, chosen) if chosen else None,
        "asking": asking,
        "waiting": _waiting(asking, taskset),
        "scales": taskset.scales.order_by("name")[:SCALES_SHOWN],
        "made": taskset.made_of_it[:MADE_SHOWN],
    }
    return render(request, "dashboard/taskset.html", context)
