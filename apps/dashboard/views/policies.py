"""Policies: those of one's projects, and one by itself, with where it came from and its licence."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.dashboard import policy_page
from apps.dashboard.paging import page_of
from apps.policies.models import Policy
from apps.runs.models import Run

RUNS_SHOWN = 20


@require_safe
@login_required
def policies(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the policies of their projects."""
    visible = Policy.objects.visible_to(request.user).select_related("project")
    page = page_of(visible, request)
    rows = [(policy, policy_page.source_of(policy)) for policy in page.rows]
    context = {"section": "weights", "page": page, "rows": rows}
    return render(request, "dashboard/policies.html", context)


@require_safe
@login_required
def policy(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the policy's project."""
    visible = Policy.objects.visible_to(request.user).select_related("project", "created_by")
    found = get_object_or_404(visible, project__slug=project, slug=slug)
    runs = Run.objects.visible_to(request.user).filter(policy=found, is_evaluation=False)
    context = {
        "section": "weights",
        "policy": found,
        "source": policy_page.source_of(found),
        "content": policy_page.content_of(found),
        "runs": runs.select_related("project").order_by("-pk")[:RUNS_SHOWN],
    }
    return render(request, "dashboard/policy.html", context)
