"""Corrections of one rollout: an expert's answer, and copying its task into a test set."""

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from apps.accounts.requests import SignedInRequest
from apps.feedback.forms import BadAnswer
from apps.feedback.ratings.answers import Refused
from apps.feedback.ratings.rewrites import save_correction as keep_correction
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.extending import add_to_set


@require_POST
@login_required
def store_correction(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: store a corrected reply as an expert's answer."""
    rollout = _steered_rollout(request, pk)
    try:
        keep_correction(request.user, rollout, _uuid(request), request.POST.get("text", ""))
    except BadAnswer as bad:
        messages.error(
            request,
            "Not saved: " + "; ".join(f"the text {why}" for why in bad.problems.values()) + ".",
        )
    except Refused as refused:
        messages.error(request, f"Not saved: {refused}")
    else:
        messages.success(request, "Saved as a demonstration and as a preference over this reply.")
    return redirect("rollout", pk)


@require_POST
@login_required
def add_task(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: copy the rollout's task into a set by name."""
    rollout = _steered_rollout(request, pk)
    try:
        name = request.POST.get("taskset", "").strip()
        if name in {taskset.slug for taskset in rollout.run.tasksets}:
            raise ValueError(f"the run trains on {name}, so {name} can't be used to evaluate it")
        extended_set = add_to_set(rollout.run.project, name, [rollout.group.task], request.user)
    except ValueError as error:
        messages.error(request, f"Task not added: {error}.")
    else:
        messages.success(
            request,
            f"Task added to {extended_set.slug}, which now has {extended_set.size:,} tasks.",
        )
    return redirect("rollout", pk)


def _steered_rollout(request: SignedInRequest, pk: int) -> Rollout:
    """Return the rollout if the user may steer its run.

    Raises Http404 for a stranger, PermissionDenied for a viewer.
    """
    visible_rollouts = Rollout.objects.visible_to(request.user).select_related(
        "run__project", "run__taskset", "group__task"
    )
    rollout = get_object_or_404(visible_rollouts, pk=pk)
    if not Run.objects.steered_by(request.user).filter(pk=rollout.run_id).exists():
        raise PermissionDenied(
            "Only owners and researchers of this project can change its rollouts."
        )
    return rollout


def _uuid(request: SignedInRequest) -> uuid.UUID:
    """Return the form's UUID, which makes a repeated submission harmless."""
    try:
        return uuid.UUID(request.POST.get("client_uuid", ""))
    except ValueError:
        return uuid.uuid4()
