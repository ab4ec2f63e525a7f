"""REST API: a run's episodes as a file of lines."""

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import PermissionDenied
from rest_framework.views import APIView

from apps.accounts.downloads import Download, in_chunks, stream_download
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead
from apps.environments.traces.exporting import write_trace_lines
from apps.runs.models import Run

JSON_LINES = "application/jsonl"


class EpisodesOfRun(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="runs_episodes", responses={(200, JSON_LINES): OpenApiTypes.BINARY})
    def get(self, request: ApiRequest, pk: int) -> Download:
        """Return the run's episodes with their tokens and rewards, one per line.

        The format is Episode (v1) of the verifiers package.
        """
        run = get_object_or_404(
            Run.objects.visible_to(request.user).select_related("project", "policy", "topic"), pk=pk
        )
        if not Run.objects.steered_by(request.user).filter(pk=pk).exists():
            raise PermissionDenied(
                "Only owners and researchers of this project can download its episodes."
            )
        name = f"{run.project.slug}-{run.slug}-episodes.jsonl"
        return stream_download(
            request._request, in_chunks(write_trace_lines(run)), JSON_LINES, name
        )
