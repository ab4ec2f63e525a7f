"""Downloads of a taskset: its file, and its overlap with another one."""

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.downloads import stream_download
from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.tasksets.exporting import TYPES, export_pieces
from apps.tasksets.models import Task, Taskset
from apps.tasksets.overlap import THRESHOLD, TooMuch
from apps.tasksets.taskset_overlap import Overlap, measure_overlap

MAX_TASKS = 20_000  # tasks of both sets that are compared within a request, in some seconds
PAIRS_SHOWN = 100


@require_safe
@login_required
def export_taskset_file(
    request: SignedInRequest, project: str, slug: str, format: str
) -> HttpResponseBase:
    """Owners and researchers of the project, because it has the answers: the file, streamed."""
    taskset = managed_taskset(request, project, slug)
    if format not in TYPES:
        raise Http404(f"no export .{format}")
    return stream_download(
        request, export_pieces(taskset, format), TYPES[format], f"{taskset.slug}.{format}"
    )


@require_safe
@login_required
def overlap(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: which of its tasks the set `with` also has."""
    taskset = managed_taskset(request, project, slug)
    other_tasksets = (
        Taskset.objects.filter(project=taskset.project).exclude(pk=taskset.pk).order_by("slug")
    )
    other_slug = request.GET.get("with", "")
    context = {
        "section": "tasksets",
        "taskset": taskset,
        "others": list(other_tasksets),
        "chosen": other_slug,
        "threshold": THRESHOLD,
    }
    if other_slug:
        other_taskset = get_object_or_404(other_tasksets, slug=other_slug)
        context |= {"other": other_taskset, **_overlap_context(taskset, other_taskset)}
    return render(request, "dashboard/taskset_overlap.html", context)


def managed_taskset(request: SignedInRequest, project: str, slug: str) -> Taskset:
    """Return the taskset if the user may run its project.

    Raises Http404 for a stranger, PermissionDenied for a viewer.
    """
    taskset = get_object_or_404(
        Taskset.objects.visible_to(request.user).select_related("project"),
        project__slug=project,
        slug=slug,
    )
    if not Project.objects.run_by(request.user).filter(pk=taskset.project_id).exists():
        raise PermissionDenied(
            "Only owners and researchers of this project can download its tasksets."
        )
    return taskset


def _overlap_context(taskset: Taskset, other_taskset: Taskset) -> dict:
    if taskset.size + other_taskset.size > MAX_TASKS:
        return {"refusal": f"The two have more than the {MAX_TASKS:,} tasks that a page compares."}
    try:
        shared = measure_overlap(taskset, other_taskset)
    except TooMuch as error:
        return {"refusal": f"{taskset.slug} {error}."}
    return {"overlap": shared, "pairs": _shown_pairs(taskset, other_taskset, shared)}


def _shown_pairs(taskset: Taskset, other_taskset: Taskset, shared: Overlap) -> list[tuple]:
    """Return the pairs with the largest shares first, each with both tasks; two queries."""
    pairs = sorted(
        shared.pairs, key=lambda pair: (-pair.is_exact, -pair.share, pair.checked, pair.other)
    )[:PAIRS_SHOWN]
    tasks = _tasks(taskset, [pair.checked for pair in pairs])
    other_tasks = _tasks(other_taskset, [pair.other for pair in pairs])
    return [(pair, tasks[pair.checked], other_tasks[pair.other]) for pair in pairs]


def _tasks(taskset: Taskset, indexes: list[int]) -> dict[int, Task]:
    return {task.index: task for task in taskset.tasks.filter(index__in=indexes).defer("answer")}
