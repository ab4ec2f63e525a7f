"""A run's events by cursor, and its metrics, events and project's audit log as files, over REST."""

from typing import Any

from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.documents import Choice
from apps.accounts.downloads import stream_download
from apps.accounts.listing import MAX_ROWS, PAGE_ROWS, Id, Query
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead
from apps.runs.blind_review import blind_payload, sees_judgements
from apps.runs.exporting.reading import RunMetrics
from apps.runs.exporting.writing import (
    CSV,
    FORMATS,
    JSONL,
    SHAPES,
    audit_file,
    events_file,
    metrics_file,
    metrics_file_name,
)
from apps.runs.models import Run
from apps.runs.schemas import NamesField
from apps.streaming.models import Event


class EventQuery(Query):
    after = Id(required=False, default=0, help_text="Events above this sequence number.")
    limit = serializers.IntegerField(
        required=False, default=PAGE_ROWS, min_value=1, max_value=MAX_ROWS
    )


class EventRow(serializers.ModelSerializer[Event]):
    """An event of a run; raters who rate it blind see only its kind and who caused it."""

    sequence = serializers.IntegerField(read_only=True)
    payload = serializers.SerializerMethodField()

    class Meta:
        model = Event
        fields = ("sequence", "kind", "payload", "at")

    def get_payload(self, event: Event) -> dict[str, Any]:
        return event.payload if self.context["open"] else blind_payload(event.kind, event.payload)


class EventPage(serializers.Serializer[Any]):
    """Events in order."""

    items = EventRow(many=True)
    more = serializers.BooleanField(
        help_text="Whether there are more: continue with `after` = the last sequence number."
    )


class RunEvents(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="runs_events", parameters=[EventQuery], responses=EventPage)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return the run's events after a cursor."""
        query = EventQuery.of(request)
        run = get_object_or_404(Run.objects.visible_to(request.user), pk=pk)
        rows = Event.objects.filter(topic=run.topic_id, sequence__gt=query["after"]).order_by(
            "sequence"
        )[: query["limit"] + 1]
        events = list(rows)
        context = {"open": sees_judgements(request.user, run)}
        items = EventRow(events[: query["limit"]], many=True, context=context).data
        return Response({"items": items, "more": len(events) > query["limit"]})


class FileQuery(Query):
    after = Id(
        required=False,
        default=0,
        help_text="Rows above this number: a step, an event's sequence number, an action's ID.",
    )


class MetricsQuery(FileQuery):
    file = Choice(list(FORMATS), required=False, default=CSV)
    shape = Choice(
        SHAPES, required=False, default="long", help_text="One row per metric or one row per step."
    )
    names = NamesField(required=False)


class RunFile(APIView):
    permission_classes = [MayRead]

    def steered(self, request: ApiRequest, pk: int) -> Run:
        """Return a run that the user may steer.

        Raises Http404 for strangers, and PermissionDenied for people who may only look.
        """
        run: Run = get_object_or_404(
            Run.objects.visible_to(request.user).select_related("project"), pk=pk
        )
        if not Run.objects.steered_by(request.user).filter(pk=pk).exists():
            raise PermissionDenied(
                "Only owners and researchers of the project can download its files."
            )
        return run


class MetricsFile(RunFile):
    @extend_schema(
        operation_id="runs_export_metrics",
        parameters=[MetricsQuery],
        responses={(200, kind): OpenApiTypes.BINARY for kind in ("text/csv", FORMATS["parquet"])},
    )
    def get(self, request: ApiRequest, pk: int) -> StreamingHttpResponse:
        """Return all metrics of the run, with step, weight version and time."""
        query = MetricsQuery.of(request)
        run = self.steered(request, pk)
        metrics = RunMetrics(run, query["after"], tuple(query.get("names", ())))
        pieces = metrics_file(metrics, query["shape"], query["file"])
        return stream_download(
            request._request,
            pieces,
            FORMATS[query["file"]],
            metrics_file_name(run, query["shape"], query["file"]),
        )


class EventsFile(RunFile):
    @extend_schema(
        operation_id="runs_export_events",
        parameters=[FileQuery],
        responses={(200, JSONL): OpenApiTypes.BINARY},
    )
    def get(self, request: ApiRequest, pk: int) -> StreamingHttpResponse:
        """Return all events of the run, as JSON lines."""
        after = FileQuery.of(request)["after"]
        run = self.steered(request, pk)
        return stream_download(
            request._request,
            events_file(run, after),
            JSONL,
            f"{run.project.slug}-{run.slug}-events.jsonl",
        )


class ActsFile(RunFile):
    @extend_schema(
        operation_id="runs_export_audit",
        parameters=[FileQuery],
        responses={(200, JSONL): OpenApiTypes.BINARY},
    )
    def get(self, request: ApiRequest, pk: int) -> StreamingHttpResponse:
        """Return the audit log of the run's project, as JSON lines."""
        after = FileQuery.of(request)["after"]
        run = self.steered(request, pk)
        return stream_download(
            request._request, audit_file(run, after), JSONL, f"{run.project.slug}-audit.jsonl"
        )
