"""How far a worker is with the deletion of a run or of a project, and a second try."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import User
from apps.accounts.requests import SignedInRequest
from apps.runs.deleting import JOB
from apps.runs.models import NotPossible, ProjectRemoval, RunRemoval
from apps.runs.models.removals import ProjectRemovalQuerySet, RunRemovalQuerySet
from apps.streaming import wakeups

LISTED = 20
Deletions = RunRemovalQuerySet | ProjectRemovalQuerySet


@dataclass(frozen=True)
class Subject:
    """What is deleted: a run or a project.

    `kind` begins the names of the pages about its deletion; `list` names the page that lists it.
    """

    kind: str
    removals: type[RunRemoval] | type[ProjectRemoval]
    related: tuple[str, ...]
    section: str
    list: str
    may_not: str

    @property
    def page(self) -> str:
        return f"{self.kind}-deletion"

    def seen_by(self, user: User) -> Deletions:
        """Return the deletions that the user may follow."""
        return self.removals.objects.visible_to(user).select_related(*self.related)

    def unfinished(self, user: User) -> Deletions:
        """Return the deletions that go on or have failed, the newest first."""
        return self.seen_by(user).unfinished()


RUN = Subject(
    "run",
    RunRemoval,
    ("project", "by"),
    section="runs",
    list="runs",
    may_not="Only owners of this project can delete its runs.",
)
PROJECT = Subject(
    "project",
    ProjectRemoval,
    ("by",),
    section="settings",
    list="projects",
    may_not="Only owners of this project can delete it.",
)


@require_safe
@login_required
def show_deletion(request: SignedInRequest, pk: int, subject: Subject) -> HttpResponse:
    """Members of the project, and who ordered its deletion: follow a deletion."""
    return render(request, "dashboard/deletion.html", _context(request, pk, subject))


@require_safe
@login_required
def deletion_now(request: SignedInRequest, pk: int, subject: Subject) -> HttpResponse:
    """Members of the project, and who ordered its deletion: the polled part of the page."""
    return render(request, "dashboard/_deletion_now.html", _context(request, pk, subject))


@require_POST
@login_required
def try_again(request: SignedInRequest, pk: int, subject: Subject) -> HttpResponse:
    """Owners of the project: let a worker continue a deletion that failed."""
    removal = get_object_or_404(subject.seen_by(request.user), pk=pk)
    if not removal.may_be_tried_again_by(request.user):
        raise PermissionDenied(subject.may_not)
    try:
        removal.try_again(request.user)
    except NotPossible as error:
        messages.error(request, f"{error}.".capitalize())
    else:
        wakeups.send(JOB)
    return redirect(subject.page, removal.pk)


def list_run_deletions(user: User, project: str = "") -> Iterable[RunRemoval | ProjectRemoval]:
    """Return the unfinished deletions for the list of runs, of one project if it is named."""
    removals = RUN.unfinished(user)
    return (removals.filter(project__slug=project) if project else removals)[:LISTED]


def list_project_deletions(user: User) -> Iterable[RunRemoval | ProjectRemoval]:
    """Return the unfinished deletions for the list of projects."""
    return PROJECT.unfinished(user)[:LISTED]


def _context(request: SignedInRequest, pk: int, subject: Subject) -> dict:
    removal = get_object_or_404(subject.seen_by(request.user), pk=pk)
    return {
        "section": subject.section,
        "subject": subject,
        "removal": removal,
        "may_delete": removal.may_be_tried_again_by(request.user),
    }
