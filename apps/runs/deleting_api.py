"""Deletion of runs over REST: see what goes, order it, follow it."""

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
from apps.runs.deleting import NotDeletable, contents_of, delete_runs, reasons_against
from apps.runs.following_deletions import DeletionPlan, DeletionView
from apps.runs.models import Run, RunRemoval


class Confirmation(Strict):
    """The deletion of a run, confirmed by its name."""

    name = Text(max_length=50, help_text="Slug of the run, as a confirmation.")


class RunDeletion(serializers.ModelSerializer[RunRemoval]):
    """The deletion of a run, with its state and progress."""

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


class OfRuns(DeletionView):
    kind = "run"
    removals = RunRemoval
    related = ("project", "by")
    form = RunDeletion
    confirmation = Confirmation
    may_not = "Only owners of the project can delete its runs."

    def owned(self, request: ApiRequest, pk: int) -> Run:
        """Return the run. Raise Http404 for a stranger, PermissionDenied for other members."""
        visible_runs = Run.objects.visible_to(request.user).select_related("project")
        run: Run = get_object_or_404(visible_runs, pk=pk)
        if not Run.objects.owned_by(request.user).filter(pk=pk).exists():
            raise PermissionDenied(self.may_not)
        return run


class DeletionOfRun(OfRuns):
    @extend_schema(operation_id="runs_deletion_plan", responses=DeletionPlan)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return what deleting the run would delete and keep. For owners of its project only."""
        run = self.owned(request, pk)
        return self.plan(contents_of(run), reasons_against(run))

    @extend_schema(operation_id="runs_delete", request=Confirmation, responses={202: RunDeletion})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Delete the run, confirmed by its slug. A worker deletes its rows and files.

        Nobody can open the run from then on. You cannot undo this.
        """
        run = self.owned(request, pk)
        self.require_confirmation(request, run.slug)
        try:
            removals = delete_runs([run], request.user)
        except NotDeletable as error:
            raise Conflict(str(error)) from None
        [removal] = [row for row in removals if row.run_number == pk]
        return Response(RunDeletion(removal).data, 202)


class RunDeletions(OfRuns):
    @extend_schema(
        operation_id="run_deletions_list",
        parameters=[DeletionQuery],
        responses=page_serializer(RunDeletion),
    )
    def get(self, request: ApiRequest) -> Response:
        """List the deletions of runs of your projects, the newest first."""
        query = DeletionQuery.of(request)
        rows = self.visible(request)
        if "project" in query:
            rows = rows.filter(project__slug=query["project"])
        return Response(list_page(rows, query, RunDeletion))


class OneRunDeletion(OfRuns):
    @extend_schema(operation_id="run_deletions_show", responses=RunDeletion)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return the state and the progress of the deletion of a run."""
        return self.show(request, pk)


class RunDeletionAgain(OfRuns):
    @extend_schema(operation_id="run_deletions_again", request=None, responses={200: RunDeletion})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Continue a failed deletion. For owners of the project only."""
        return self.try_again(request, pk)
