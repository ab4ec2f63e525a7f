"""Scoring again over REST: a run's new sets of rewards, asking for one, following and stopping
it.
"""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.documents import Number, Strict, Text, Whole
from apps.accounts.listing import Paged, list_page, page_serializer
from apps.accounts.models import User
from apps.accounts.problems import Conflict
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead, MaySteer
from apps.rewards.models import Rescoring
from apps.rewards.rescoring.asking import NothingToRescore, start_rescoring
from apps.rewards.rescoring.choosing import MAX_ROLLOUTS, WHOLE, Chosen
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run
from apps.runs.schemas import Nothing

MAX_SCORERS = 100


class RescoringDocument(serializers.ModelSerializer):
    """A rescoring: its scorers, its rollouts and its progress."""

    rewards = serializers.ListField(child=serializers.DictField(), read_only=True)
    chosen = serializers.DictField(read_only=True)
    by: serializers.SlugRelatedField[User] = serializers.SlugRelatedField(
        "username", read_only=True, allow_null=True
    )

    class Meta:
        model = Rescoring
        fields = (
            "id",
            "state",
            "reason",
            "rewards",
            "chosen",
            "rollouts",
            "groups",
            "done",
            "by",
            "created_at",
            "started_at",
            "ended_at",
        )


class ChosenRollouts(Strict):
    """Conditions on rollouts, all of which must hold. Whole groups are scored."""

    from_step = Whole(required=False, min_value=0, max_value=2**31 - 1)
    to_step = Whole(required=False, min_value=0, max_value=2**31 - 1)
    domain = Text(required=False, max_length=60)
    scorer = Text(
        required=False,
        max_length=60,
        help_text="Only rollouts with a reward of this scorer from `low` to `high`.",
    )
    low = Number(required=False)
    high = Number(required=False)
    limit = Whole(required=False, min_value=1, max_value=MAX_ROLLOUTS)


class NewRescoring(Strict):
    """The rollouts to score again, and the scorers."""

    rewards = serializers.ListField(
        child=serializers.DictField(),
        max_length=MAX_SCORERS,
        help_text=("Scorers in the format of a run's `rewards`."),
    )
    chosen = ChosenRollouts(required=False)


def get_rescored_run(request: ApiRequest, pk: int) -> Run:
    """Raises Http404 for a stranger, PermissionDenied for who may only look."""
    run = get_object_or_404(Run.objects.visible_to(request.user).select_related("project"), pk=pk)
    if not Run.objects.steered_by(request.user).filter(pk=pk).exists():
        raise PermissionDenied(
            "Only owners and researchers of the project can rescore its rollouts."
        )
    return run


def list_rescorings(run: Run) -> QuerySet[Rescoring]:
    return run.rescorings.select_related("by")


def _read_chosen(document: dict[str, Any]) -> Chosen:
    """Return the conditions on rollouts. Raises ValidationError naming the fields in `chosen`."""
    try:
        return Chosen.read(document)
    except ConfigError as error:
        problems = {
            "non_field_errors" if field == WHOLE else field: [problem]
            for field, problem in error.problems.items()
        }
        raise serializers.ValidationError({"chosen": problems}) from None


class Rescorings(APIView):
    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "POST" else MayRead()]

    @extend_schema(
        operation_id="rescorings_list",
        parameters=[Paged],
        responses=page_serializer(RescoringDocument),
    )
    def get(self, request: ApiRequest, pk: int) -> Response:
        """List the run's rescorings, the newest first."""
        return Response(
            list_page(
                list_rescorings(get_rescored_run(request, pk)), Paged.of(request), RescoringDocument
            )
        )

    @extend_schema(
        operation_id="rescorings_create", request=NewRescoring, responses={201: RescoringDocument}
    )
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Score stored rollouts of the run again. The first rewards stay as they are."""
        serializer = NewRescoring(data=request.data)
        run = get_rescored_run(request, pk)
        serializer.is_valid(raise_exception=True)
        chosen = _read_chosen(serializer.validated_data.get("chosen", {}))
        rewards = serializer.validated_data["rewards"]
        try:
            rescoring = start_rescoring(run, rewards, chosen, request.user)
        except ConfigError as error:
            raise serializers.ValidationError(
                {field: [problem] for field, problem in error.problems.items()}
            ) from None
        except NothingToRescore as nothing:
            raise Conflict(str(nothing)) from None
        return Response(RescoringDocument(rescoring).data, 201)


class OneRescoring(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="rescorings_show", responses=RescoringDocument)
    def get(self, request: ApiRequest, pk: int, rescoring: int) -> Response:
        """Return the progress of a rescoring."""
        return Response(
            RescoringDocument(
                get_object_or_404(list_rescorings(get_rescored_run(request, pk)), pk=rescoring)
            ).data
        )


class StopRescoring(APIView):
    permission_classes = [MaySteer]

    @extend_schema(
        operation_id="rescorings_stop", request=Nothing, responses={200: RescoringDocument}
    )
    def post(self, request: ApiRequest, pk: int, rescoring: int) -> Response:
        """Stop the rescoring. The rollouts that are scored keep their new rewards."""
        Nothing(data=request.data).is_valid(raise_exception=True)
        stored_rescoring = get_object_or_404(
            list_rescorings(get_rescored_run(request, pk)), pk=rescoring
        )
        try:
            stored_rescoring.stop(by=request.user)
        except NotPossible as error:
            raise Conflict(str(error)) from None
        return Response(RescoringDocument(stored_rescoring).data)
