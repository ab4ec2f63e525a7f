"""Deletion of projects over REST: see what goes, order it, follow it."""

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.response import Response

from apps.accounts.documents import Strict, Text
from apps.accounts.listing import Paged, list_page, page_serializer
from apps.accounts.models import Project, User
from apps.accounts.problems import Conflict
from apps.accounts.requests import ApiRequest
from apps.runs.deleting import NotDeletable
from apps.runs.deleting_projects import contents_of, delete_project, reasons_against
from apps.runs.following_deletions import DeletionPlan, DeletionView
from apps.runs.models import ProjectRemoval


class ProjectConfirmation(Strict):
    """The deletion of a project, confirmed by its short name."""

    name = Text(max_length=50, help_text="Slug of the project, as a confirmation.")


class ProjectDeletion(serializers.ModelSerializer[ProjectRemoval]):
    """The deletion of a project, with its state and progress."""

    by = serializers.SlugRelatedField[User]("username", read_only=True, allow_null=True)
    done = serializers.IntegerField(
        source="rows_deleted", read_only=True, help_text="Rows deleted so far."
    )
    runs_deleted = serializers.IntegerField(read_only=True, help_text="Runs deleted so far.")

    class Meta:
        model = ProjectRemoval
        fields = (
            "id",
            "slug",
            "title",
            "by",
            "state",
            "reason",
            "done",
            "total",
            "runs_deleted",
            "runs",
            "bytes",
            "created_at",
            "started_at",
            "ended_at",
        )


class OfProjects(DeletionView):
    kind = "project"
    removals = ProjectRemoval
    related = ("by",)
    form = ProjectDeletion
    confirmation = ProjectConfirmation
    may_not = "Only owners of the project can delete it."

    def owned(self, request: ApiRequest, slug: str) -> Project:
        """Return the project. Raise Http404 for a stranger, PermissionDenied for other members."""
        project = get_object_or_404(Project.objects.visible_to(request.user).distinct(), slug=slug)
        if not Project.objects.owned_by(request.user).filter(pk=project.pk).exists():
            raise PermissionDenied(self.may_not)
        return project


class DeletionOfProject(OfProjects):
    @extend_schema(operation_id="projects_deletion_plan", responses=DeletionPlan)
    def get(self, request: ApiRequest, project: str) -> Response:
        """Return what deleting the project would delete and keep. For its owners only."""
        owned = self.owned(request, project)
        return self.plan(contents_of(owned), reasons_against(owned))

    @extend_schema(
        operation_id="projects_delete",
        request=ProjectConfirmation,
        responses={202: ProjectDeletion},
    )
    def post(self, request: ApiRequest, project: str) -> Response:
        """Delete the project and its contents, confirmed by its slug. For its owners only.

        Nobody can open the project from then on; a worker deletes its contents. You cannot undo
        this.
        """
        owned = self.owned(request, project)
        self.require_confirmation(request, owned.slug)
        try:
            removal = delete_project(owned, request.user)
        except NotDeletable as error:
            raise Conflict(str(error)) from None
        return Response(ProjectDeletion(removal).data, 202)


class ProjectDeletions(OfProjects):
    @extend_schema(
        operation_id="project_deletions_list",
        parameters=[Paged],
        responses=page_serializer(ProjectDeletion),
    )
    def get(self, request: ApiRequest) -> Response:
        """List the deletions of your projects and those that you requested, the newest first."""
        return Response(list_page(self.visible(request), Paged.of(request), ProjectDeletion))


class OneProjectDeletion(OfProjects):
    @extend_schema(operation_id="project_deletions_show", responses=ProjectDeletion)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return the state and the progress of the deletion of a project."""
        return self.show(request, pk)


class ProjectDeletionAgain(OfProjects):
    @extend_schema(
        operation_id="project_deletions_again", request=None, responses={200: ProjectDeletion}
    )
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Continue a failed deletion. For owners of the project only."""
        return self.try_again(request, pk)
