"""Deletion of runs over REST: see what goes, order it, follow it."""

from typing import Any

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
from apps.runs.deleting import JOB, NotDeletable, contents_of, delete_runs, reasons_against
from apps.runs.models import NotPossible, Run, RunRemoval
from apps.streaming import wakeups

MAY_NOT = "Only owners of the project can delete its runs."


class Confirmation(Strict):
    """The deletion of a run, confirmed by its name."""

    name = Text(max_length=50, help_text="Slug of the run, as a confirmation.")


class DeletionPlan(serializers.Serializer[Any]):
    """What a deletion takes, what it leaves, and what prevents it."""

    deleted = serializers.DictField(
        child=serializers.IntegerField(), help_text="What is deleted, and how many of each."
    )
    kept = serializers.DictField(
        child=serializers.IntegerField(), help_text="What stays, and how many of each."
    )
    bytes = serializers.IntegerField(help_text="Size of its weights and exports.")
    reasons = serializers.ListField(
        child=serializers.CharField(), help_text="What prevents the deletion; empty if nothing."
    )


class RunDeletion(serializers.ModelSerializer[RunRemoval]):
    """The deletion of a run: its state and its progress."""

    project = serializers.SlugRelatedField[Project]("slug", read_only=True)
    run = serializers.IntegerField(
        source="run_number", read_only=True, help_text="ID that the run has or had."
    )
    by = serializers.SlugRelatedField[User]("username", read_only=True, allow_null=True)

    class Meta:
        model = RunRemoval
        fields = (
            "id",
            "project",
            "run",
            "slug",
            "by",
            "state",
            "reason",
            "done",
            "total",
            "bytes",
            "created_at",
            "started_at",
            "ended_at",
        )


class DeletionQuery(Paged):
    project = serializers.CharField(required=False, max_length=50)


def _owned(request: ApiRequest, pk: int) -> Run:
    """Return the run. Raise Http404 for a stranger, PermissionDenied for other members."""
    seen = Run.objects.visible_to(request.user).select_related("project")
    run: Run = get_object_or_404(seen, pk=pk)
    if not Run.objects.owned_by(request.user).filter(pk=pk).exists():
        raise PermissionDenied(MAY_NOT)
    return run


class DeletionOfRun(APIView):
    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "POST" else MayRead()]

    @extend_schema(operation_id="runs_deletion_plan", responses=DeletionPlan)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """What the deletion of the run would take and leave. Owners of its project only."""
        run = _owned(request, pk)
        contents = contents_of(run)
        return Response(
            {
                "deleted": {plural: count for count, _, plural in contents.goes},
                "kept": {plural: count for count, _, plural in contents.stays},
                "bytes": contents.bytes,
                "reasons": reasons_against(run),
            }
        )

    @extend_schema(operation_id="runs_delete", request=Confirmation, responses={202: RunDeletion})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Delete the run, confirmed by its slug. A worker deletes its rows and files.

        The run is out of reach at once. This cannot be undone.
        """
        run = _owned(request, pk)
        asked = Confirmation(data=request.data)
        asked.is_valid(raise_exception=True)
        if asked.validated_data["name"] != run.slug:
            raise ValidationError({"name": [f"To confirm, send the run's slug: {run.slug}"]})
        try:
            removals = delete_runs([run], request.user)
        except NotDeletable as error:
            raise Conflict(str(error)) from None
        [removal] = [one for one in removals if one.run_number == pk]
        return Response(RunDeletion(removal).data, 202)


class RunDeletions(APIView):
    permission_classes = [MayRead]

    @extend_schema(
        operation_id="run_deletions_list",
        parameters=[DeletionQuery],
        responses=page_serializer(RunDeletion),
    )
    def get(self, request: ApiRequest) -> Response:
        """Deletions of runs of your projects, the newest first."""
        query = DeletionQuery.of(request)
        rows = RunRemoval.objects.visible_to(request.user).select_related("project", "by")
        if "project" in query:
            rows = rows.filter(project__slug=query["project"])
        return Response(list_page(rows, query, RunDeletion))


class OneRunDeletion(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="run_deletions_show", responses=RunDeletion)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """The deletion of a run: its state and its progress."""
        seen = RunRemoval.objects.visible_to(request.user).select_related("project", "by")
        return Response(RunDeletion(get_object_or_404(seen, pk=pk)).data)


class RunDeletionAgain(APIView):
    permission_classes = [MaySteer]

    @extend_schema(operation_id="run_deletions_again", request=None, responses={200: RunDeletion})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Continue a deletion that failed. Owners of the project only."""
        seen = RunRemoval.objects.visible_to(request.user).select_related("project", "by")
        found = get_object_or_404(seen, pk=pk)
        if not Project.objects.owned_by(request.user).filter(pk=found.project_id).exists():
            raise PermissionDenied(MAY_NOT)
        try:
            found.try_again(request.user)
        except NotPossible as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        wakeups.send(JOB)
        found.refresh_from_db()
        return Response(RunDeletion(found).data)
