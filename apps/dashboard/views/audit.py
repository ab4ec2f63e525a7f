"""The audit log of a project or a run: who did what, when and why; for people who steer it."""

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.models import AuditEntry, Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.differences import list_field_differences
from apps.dashboard.paging import load_page, page_within

LOOKED_THROUGH = 20_000
NAMED_AMONG = 1_000


class AuditSearch(forms.Form):
    """A search by the words of an action and by its author."""

    action = forms.CharField(
        max_length=60,
        required=False,
        label="Action",
        widget=forms.TextInput({"list": "actions", "data-search": ""}),
    )
    by = forms.CharField(
        max_length=150, required=False, label="User", widget=forms.TextInput({"list": "people"})
    )

    def matching(self, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        if not self.is_valid():
            return entries.none()
        condition = Q()
        if action := self.cleaned_data["action"]:
            condition &= Q(action__icontains=action)
        if by := self.cleaned_data["by"]:
            condition &= Q(name__iexact=by)
        return entries.filter(condition)


@require_safe
@login_required
def run_audit(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project."""
    run = steered_run(request, project, slug)
    of_run = Q(target=run.address) | Q(target__startswith=f"{run.address} ")
    return _page(
        request, AuditEntry.objects.filter(project=run.project_id), of_run, section="runs", run=run
    )


@require_safe
@login_required
def project_audit(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project."""
    visible_project = get_object_or_404(Project.objects.visible_to(request.user), slug=project)
    if not Project.objects.run_by(request.user).filter(pk=visible_project.pk).exists():
        raise PermissionDenied(
            "Only owners and researchers of this project can read its audit log."
        )
    return _page(
        request,
        AuditEntry.objects.filter(project=visible_project),
        Q(),
        section="settings",
        project=visible_project,
    )


def _page(
    request: SignedInRequest, among: QuerySet[AuditEntry], condition: Q, **context: object
) -> HttpResponse:
    search = AuditSearch(request.GET)
    entries = search.matching(among.filter(condition))
    is_searched = bool(condition) or any(request.GET.get(name) for name in search.fields)
    page = (
        page_within(entries, among, LOOKED_THROUGH, request)
        if is_searched
        else load_page(entries, request)
    )
    newest = list(among.order_by("-pk").values_list("action", "name")[:NAMED_AMONG])
    context |= {
        "search": search,
        "page": page,
        "rows": [(entry, _entry_details(entry)) for entry in page.rows],
        "actions": sorted({action for action, _ in newest}),
        "people": sorted({name for _, name in newest if name}),
    }
    return render(
        request, "dashboard/audit.html", context, status=200 if search.is_valid() else 422
    )


def _entry_details(entry: AuditEntry) -> dict:
    """Return an entry's details: differences, reason, and everything else by name."""
    details = dict(entry.details)
    before = details.pop("before", None)
    after = details.pop("after", None)
    changed = (
        list(list_field_differences(before, after))
        if isinstance(before, dict) and isinstance(after, dict)
        else []
    )
    return {"reason": details.pop("reason", ""), "differences": changed, "rest": details}
