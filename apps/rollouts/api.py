"""Rollouts over REST: list and show."""

from collections.abc import Iterable

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.listing import list_page, page_serializer
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead
from apps.rollouts.models import Rollout
from apps.rollouts.schemas import RolloutDocument, RolloutQuery, RolloutRow
from apps.runs.blind_review import judged_openly, open_among
from apps.runs.models import Run


class Rollouts(APIView):
    permission_classes = [MayRead]

    @extend_schema(
        operation_id="rollouts_list",
        parameters=[RolloutQuery],
        responses=page_serializer(RolloutRow),
    )
    def get(self, request: ApiRequest) -> Response:
        """List the rollouts of your projects' runs, the newest first.

        Anchors, which the policy did not sample, are listed only on request.
        """
        query = RolloutQuery.of(request)
        rows = Rollout.objects.visible_to(request.user)
        if "origin" in query:
            rows = rows.filter(origin=query["origin"], run__in=judged_openly(request.user))
        else:
            rows = rows.without_anchors()
        if "run" in query:
            rows = rows.filter(
                run=get_object_or_404(Run.objects.visible_to(request.user), pk=query["run"])
            )
        if "group" in query:
            rows = rows.filter(group=query["group"])
        if "state" in query:
            rows = rows.filter(state=query["state"])
        return Response(
            list_page(rows, query, RolloutRow, lambda rollouts: rollout_context(request, rollouts))
        )


class OneRollout(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="rollouts_show", responses=RolloutDocument)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return a rollout with its tokens."""
        rows = Rollout.objects.visible_to(request.user).select_related("group__task", "payload")
        rollout = get_object_or_404(rows, pk=pk)
        return Response(RolloutDocument(rollout, context=rollout_context(request, [rollout])).data)


def rollout_context(request: ApiRequest, rollouts: Iterable[Rollout]) -> dict:
    """Return the serializer context that says which runs' judgements the user may see.

    One query.
    """
    return {"open_runs": open_among(request.user, {rollout.run_id for rollout in rollouts})}
