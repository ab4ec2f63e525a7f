"""Tasksets: what may be asked. The list, and one set with its tasks and the lines that were no tasks."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.models import Project
from apps.dashboard.paging import page_of
from apps.tasksets.models import Taskset, TasksetImport

QUARANTINED_SHOWN = 100
PROJECTS_SHOWN = 20
IMPORTS_SHOWN = 20
TASKS_SHOWN = 50


def _first_index(request: HttpRequest) -> int:
    text = request.GET.get("from", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Http404("from must be the index of a task")
    return int(text)


@require_safe
@login_required
def tasksets(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the tasksets of their projects; imports under way are for those who run the project."""
    found = Taskset.objects.visible_to(request.user).select_related("project")
    own = Project.objects.run_by(request.user).order_by("slug")[:PROJECTS_SHOWN]
    under_way = TasksetImport.objects.run_by(request.user).exclude(state__in=TasksetImport.OVER).select_related("project")
    context = {
        "section": "tasksets", "page": page_of(found, request), "projects": own, "imports": under_way[:IMPORTS_SHOWN],
    }  # fmt: skip
    return render(request, "dashboard/tasksets.html", context)


@require_safe
@login_required
def taskset(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the project. Answers are for scorers, and are shown to nobody here."""
    found = get_object_or_404(Taskset.objects.visible_to(request.user).select_related("project"), project__slug=project, slug=slug)
    first = _first_index(request)
    tasks = list(found.tasks.defer("answer").filter(index__gte=first).order_by("index")[:TASKS_SHOWN])
    context = {
        "section": "tasksets", "taskset": found, "tasks": tasks, "first": first, "previous": max(0, first - TASKS_SHOWN),
        "next": first + TASKS_SHOWN if first + TASKS_SHOWN < found.size else None,
        "may_run": Project.objects.run_by(request.user).filter(pk=found.project_id).exists(),
        "quarantined": found.quarantined_lines.all()[:QUARANTINED_SHOWN], "runs": found.runs.select_related("project")[:10],
    }  # fmt: skip
    return render(request, "dashboard/taskset.html", context)
