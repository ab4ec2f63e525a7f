"""What is made of one rollout by hand: an answer as it should have been, and its task put among those that are tested with."""

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from apps.feedback.demonstrating import correct as keep_correction
from apps.feedback.forms import BadAnswer
from apps.feedback.submitting import Refused
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.extending import add_to_set


@require_POST
@login_required
def correct(request: HttpRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: how the reply should have been becomes an expert's answer."""
    rollout = _steered(request, pk)
    try:
        keep_correction(request.user, rollout, _uuid(request), request.POST.get("text", ""))
    except BadAnswer as bad:
        messages.error(request, "Nothing was kept: " + "; ".join(f"the text {why}" for why in bad.problems.values()) + ".")
    except Refused as refused:
        messages.error(request, f"Nothing was kept: {refused}")
    else:
        messages.success(request, "Kept as an expert’s answer to this task, and as better than this reply.")
    return redirect("rollout", pk)


@require_POST
@login_required
def add_task(request: HttpRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: copy the rollout's task into a set by name."""
    rollout = _steered(request, pk)
    try:
        name = request.POST.get("taskset", "").strip()
        if name in {taskset.slug for taskset in rollout.run.tasksets}:
            raise ValueError(f"the run draws from {name}: what it learns from cannot test it")
        made = add_to_set(rollout.run.project, name, [rollout.group.task], request.user)
    except ValueError as error:
        messages.error(request, f"Nothing was added: {error}.")
    else:
        messages.success(request, f"The task is in {made.slug} now, one of {made.size:,}.")
    return redirect("rollout", pk)


def _steered(request: HttpRequest, pk: int) -> Rollout:
    """Raises Http404 for a stranger, PermissionDenied for a mere viewer."""
    seen = Rollout.objects.visible_to(request.user).select_related("run__project", "run__taskset", "group__task")
    rollout = get_object_or_404(seen, pk=pk)
    if not Run.objects.steered_by(request.user).filter(pk=rollout.run_id).exists():
        raise PermissionDenied("Only owners and researchers of this project act on its rollouts.")
    return rollout


def _uuid(request: HttpRequest) -> uuid.UUID:
    """The form's own, so that it is kept once however often it is sent."""
    try:
        return uuid.UUID(request.POST.get("client_uuid", ""))
    except ValueError:
        return uuid.uuid4()
