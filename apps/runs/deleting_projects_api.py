"""Deletion of projects over REST: see what goes, order it, follow it."""

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.documents import Strict, Text
from apps.accounts.listing import Paged, list_page, page_serializer
from apps.accounts.models import Project, User
from apps.accounts.problems import Conflict
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead, MaySteer
from apps.runs.deleting import JOB, NotDeletable
from apps.runs.deleting_api import DeletionPlan
from apps.runs.deleting_projects import contents_of, delete_project, reasons_against
from apps.runs.models import NotPossible, ProjectRemoval
from apps.streaming import wakeups

MAY_NOT = "Only owners of the project can delete it."


class ProjectConfirmation(Strict):
    """The deletion of a project, confirmed by its short name."""

    name = Text(max_length=50, help_text="Slug of the project, as a confirmation.")


class ProjectDeletion(serializers.ModelSerializer[ProjectRemoval]):
    """The deletion of a project: its state and its progress."""

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


class DeletionOfProject(APIView):
    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "POST" else MayRead()]

    @extend_schema(operation_id="projects_deletion_plan", responses=DeletionPlan)
    def get(self, request: ApiRequest, project: str) -> Response:
        """What the deletion of the project would take and leave. Its owners only."""
        found = _owned(request, project)
        contents = contents_of(found)
        return Response(
            {
                "deleted": {plural: count for count, _, plural in contents.goes},
                "kept": {plural: count for count, _, plural in contents.stays},
                "bytes": contents.bytes,
                "reasons": reasons_against(found),
            }
        )

    @extend_schema(
        operation_id="projects_delete",
        request=ProjectConfirmation,
        responses={202: ProjectDeletion},
    )
    def post(self, request: ApiRequest, project: str) -> Response:
        """Delete the project with all that is in it, confirmed by its slug. Its owners only.

        The project is out of reach at once; a worker deletes what is in it. This cannot be undone.
        """
        found = _owned(request, project)
        asked = ProjectConfirmation(data=request.data)
        asked.is_valid(raise_exception=True)
        if asked.validated_data["name"] != found.slug:
            raise ValidationError({"name": [f"To confirm, send the project's slug: {found.slug}"]})
        try:
            removal = delete_project(found, request.user)
        except NotDeletable as error:
            raise Conflict(str(error)) from None
        return Response(ProjectDeletion(removal).data, 202)


class ProjectDeletions(APIView):
    permission_classes = [MayRead]

    @extend_schema(
        operation_id="project_deletions_list",
        parameters=[Paged],
        responses=page_serializer(ProjectDeletion),
    )
    def get(self, request: ApiRequest) -> Response:
        """Deletions of your projects, and those that you have ordered, the newest first."""
        rows = ProjectRemoval.objects.visible_to(request.user).select_related("by").distinct()
        return Response(list_page(rows, Paged.of(request), ProjectDeletion))


class OneProjectDeletion(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="project_deletions_show", responses=ProjectDeletion)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """The deletion of a project: its state and its progress."""
        return Response(ProjectDeletion(_seen(request, pk)).data)


class ProjectDeletionAgain(APIView):
    permission_classes = [MaySteer]

    @extend_schema(
        operation_id="project_deletions_again", request=None, responses={200: ProjectDeletion}
    )
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Continue a deletion that failed. Owners of the project only."""
        found = _seen(request, pk)
        if not found.may_be_tried_again_by(request.user):
            raise PermissionDenied(MAY_NOT)
        try:
            found.try_again(request.user)
        except NotPossible as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        wakeups.send(JOB)
        found.refresh_from_db()
        return Response(ProjectDeletion(found).data)


def _owned(request: ApiRequest, slug: str) -> Project:
    """Return the project. Raise Http404 for a stranger, PermissionDenied for other members."""
    found = get_object_or_404(Project.objects.visible_to(request.user).distinct(), slug=slug)
    if not Project.objects.owned_by(request.user).filter(pk=found.pk).exists():
        raise PermissionDenied(MAY_NOT)
    return found


def _seen(request: ApiRequest, pk: int) -> ProjectRemoval:
    seen = ProjectRemoval.objects.visible_to(request.user).select_related("by").distinct()
    return get_object_or_404(seen, pk=pk)
