"""Runs over REST: list, show, create, steer, and their metrics."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.listing import list_page, page_serializer
from apps.accounts.models import Project
from apps.accounts.problems import Conflict
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead, MaySteer
from apps.runs.blind_review import open_among, sees_judgements
from apps.runs.config import ConfigError, RunConfig
from apps.runs.models import Metric, NotPossible, Run
from apps.runs.parsing import parse_config
from apps.runs.schemas import MetricQuery, Metrics, NewRun, RunDocument, RunQuery, RunRow, Why


def list_visible_runs(request: ApiRequest) -> QuerySet[Run]:
    return (
        Run.objects.visible_to(request.user)
        .select_related("project", "policy", "owner")
        .with_tasksets()
    )


def run_context(request: ApiRequest, runs: Iterable[Run]) -> dict[str, Any]:
    """Return the serializer context: which of these runs the user may see openly. One query."""
    return {"open_runs": open_among(request.user, {run.pk for run in runs})}


def run_document(request: ApiRequest, run: Run) -> dict[str, Any]:
    return RunDocument(run, context=run_context(request, [run])).data


def anything(plan: RunConfig, project: Project) -> None:
    """Ask no more of a plan than its own rules do."""


class Runs(APIView):
    """`require` is what the floors above ask of a new run's plan; it raises ConfigError.

    `rftweb.api` wires it.
    """

    require: Callable[[RunConfig, Project], None] = staticmethod(anything)

    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "POST" else MayRead()]

    @extend_schema(
        operation_id="runs_list", parameters=[RunQuery], responses=page_serializer(RunRow)
    )
    def get(self, request: ApiRequest) -> Response:
        """List the runs of your projects, the newest first."""
        query = RunQuery.of(request)
        rows = list_visible_runs(request).defer("config")
        if "project" in query:
            rows = rows.filter(project__slug=query["project"])
        if "state" in query:
            rows = rows.filter(state=query["state"])
        return Response(list_page(rows, query, RunRow, lambda runs: run_context(request, runs)))

    @extend_schema(operation_id="runs_create", request=NewRun, responses={201: RunDocument})
    def post(self, request: ApiRequest) -> Response:
        """Create a run without starting it."""
        form = NewRun(data=request.data)
        form.is_valid(raise_exception=True)
        run = create_run(request, self.require, **form.validated_data)
        return Response(run_document(request, run), 201)


class OneRun(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="runs_show", responses=RunDocument)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return a run with its configuration."""
        return Response(run_document(request, get_object_or_404(list_visible_runs(request), pk=pk)))


class Act(APIView):
    """Start, pause, resume or stop the run.

    The audit log records the reason, if you give one.
    """

    permission_classes = [MaySteer]
    verb = ""

    @extend_schema(request=Why, responses={200: RunDocument})
    def post(self, request: ApiRequest, pk: int) -> Response:
        form = Why(data=request.data)
        form.is_valid(raise_exception=True)
        run = get_object_or_404(list_visible_runs(request), pk=pk)
        if not Run.objects.steered_by(request.user).filter(pk=pk).exists():
            raise PermissionDenied("You can view this run, but you cannot control it.")
        try:
            getattr(run, self.verb)(by=request.user, **form.validated_data)
        except NotPossible as error:
            raise Conflict(str(error)) from None
        return Response(run_document(request, run))


class RunMetrics(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="runs_metrics", parameters=[MetricQuery], responses=Metrics)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return the run's curves in a window of steps.

        Raters who rate the run blind get none.
        """
        query = MetricQuery.of(request)
        run = get_object_or_404(Run.objects.visible_to(request.user).only("pk", "step"), pk=pk)
        until = max(query["after"], min(query["after"] + query["steps"], run.step))
        rows = Metric.objects.filter(run=run, step__gt=query["after"], step__lte=until)
        if "names" in query:
            rows = rows.filter(name__in=query["names"])
        if not sees_judgements(request.user, run):
            rows = rows.none()
        curves: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {"steps": [], "values": []})
        for name, step, value in rows.order_by("name", "step").values_list("name", "step", "value"):
            curves[name]["steps"].append(step)
            curves[name]["values"].append(value)
        return Response(
            {"step": run.step, "until": until, "more": until < run.step, "curves": curves}
        )


def create_run(
    request: ApiRequest,
    require: Callable[[RunConfig, Project], None],
    project: str,
    slug: str,
    title: str,
    config: dict[str, Any],
) -> Run:
    """Create a run in a project where the user may run.

    Raises ValidationError naming the field of the configuration, and Conflict for a slug that is
    taken.
    """
    home = Project.objects.run_by(request.user).filter(slug=project).first()
    if home is None:
        raise serializers.ValidationError(
            {"project": ["There is no such project in which you can start runs."]}
        )
    try:
        plan = parse_config(config)
        require(plan, home)
        with transaction.atomic():
            return Run.create(project=home, slug=slug, title=title, plan=plan, owner=request.user)
    except ConfigError as error:
        raise serializers.ValidationError(
            {"config": {field: [problem] for field, problem in error.problems.items()}}
        ) from None
    except IntegrityError:
        raise Conflict(f"project {project!r} already has a run {slug!r}") from None
