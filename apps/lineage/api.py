"""REST API of traces, replays and exports."""

from datetime import datetime

from django.http import Http404, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.documents import Choice, Slug, Strict, Text, Whole
from apps.accounts.listing import Query
from apps.accounts.problems import Conflict
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead, MaySteer
from apps.feedback.exporting.rows import RowSelection
from apps.feedback.exporting.schemas import KINDS
from apps.feedback.exporting.serving import file_response
from apps.feedback.exporting.writing import FORMATS
from apps.feedback.forms import FORMS
from apps.feedback.models import Rating
from apps.lineage.replaying.creating import NothingToReplay, create_replay, propose
from apps.lineage.tracing import (
    STEPS_SHOWN,
    RatingEffects,
    UpdateInfluence,
    Use,
    forward,
    trace_weights,
)
from apps.runs.blind_review import sees_judgements
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run
from apps.runs.schemas import RunDocument

MAX_EXCLUDED = 100


def get_traced_run(request: ApiRequest, pk: int) -> Run:
    """Return the run. Raises Http404 for a stranger, PermissionDenied for a viewer."""
    run = get_object_or_404(
        Run.objects.visible_to(request.user).select_related(
            "project", "policy", "taskset", "owner"
        ),
        pk=pk,
    )
    if not Run.objects.steered_by(request.user).filter(pk=pk).exists():
        raise PermissionDenied("Only owners and researchers of the project can see this.")
    return run


class TraceQuery(Query):
    before = serializers.IntegerField(
        required=False, min_value=0, max_value=2**31 - 1, help_text="Steps below this number."
    )
    limit = serializers.IntegerField(required=False, default=STEPS_SHOWN, min_value=1, max_value=50)


class Word(serializers.Serializer):
    """A rating that influenced a step."""

    id = serializers.IntegerField()
    rater = serializers.CharField()
    is_simulated = serializers.BooleanField()
    form = serializers.CharField()


class ShapedUpdate(serializers.Serializer):
    """The human data that influenced one step."""

    step = serializers.IntegerField()
    rollouts = serializers.IntegerField()
    ratings = Word(many=True)
    rater_models = serializers.ListField(
        child=serializers.IntegerField(),
        help_text=("Numbers of the rater models whose rewards it used."),
    )
    demonstrations = serializers.ListField(
        child=serializers.IntegerField(), help_text="IDs of expert answers in its batch."
    )


class VersionTrace(serializers.Serializer):
    """The steps behind a weight version, the newest first."""

    version = serializers.IntegerField()
    step = serializers.IntegerField()
    items = ShapedUpdate(many=True)
    more = serializers.BooleanField(
        help_text="Whether there are older steps: continue with `before` = the last step."
    )


class UsedIn(serializers.Serializer):
    """A step that used data of a rating."""

    step = serializers.IntegerField()
    version = serializers.IntegerField(
        allow_null=True, help_text="The first weight version that includes it, if there is one."
    )


class RatingTrace(serializers.Serializer):
    """The effects of a rating.

    Raters who rate the run blind see only whether it was late: the rest is null.
    """

    rating = serializers.IntegerField()
    run = serializers.IntegerField()
    is_late = serializers.BooleanField()
    uses = UsedIn(
        many=True, allow_null=True, help_text=("Steps whose batch contains the rated replies.")
    )
    rater_model = serializers.IntegerField(
        allow_null=True, help_text="Number of the first rater model that learned from it."
    )
    by_rater_model = UsedIn(
        allow_null=True,
        help_text="The first step that used a reward of that model or a later one.",
    )
    demonstrations = UsedIn(
        many=True, allow_null=True, help_text="Steps that used lessons with this rating."
    )
    replays = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Runs that replay those steps.",
    )
    lessons = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Runs that learned from lessons with this rating.",
    )


class NewReplay(Strict):
    """The exclusions of a replay, and the rewards it learns from."""

    slug = Slug(required=False, max_length=50)
    title = Text(required=False, max_length=200)
    without_raters = serializers.ListField(
        child=Text(max_length=150), required=False, default=list, max_length=MAX_EXCLUDED
    )
    without_tasks = serializers.ListField(
        child=Whole(min_value=0, max_value=2**31 - 1),
        required=False,
        default=list,
        max_length=MAX_EXCLUDED,
    )
    rescoring = Whole(
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        help_text=("A rescoring of the run, used instead of its original machine rewards."),
    )


class ExportQuery(Query):
    file = Choice(sorted(FORMATS), required=False, default="jsonl")
    form = Choice(sorted(FORMS), required=False, help_text="Only ratings of this type.")
    since = serializers.DateTimeField(required=False, help_text="Only ratings since then.")
    pseudonyms = serializers.BooleanField(
        required=False, default=False, help_text="Replace names with rater-…."
    )


class Trace(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="runs_trace", parameters=[TraceQuery], responses=VersionTrace)
    def get(self, request: ApiRequest, pk: int, version: int) -> Response:
        """Return the human data behind a weight version, by step.

        It consists of ratings, rater models and demonstrations.
        """
        query = TraceQuery.of(request)
        traced = get_object_or_404(
            get_traced_run(request, pk).weight_versions, version=min(version, 2**31 - 1)
        )
        shapings, more = trace_weights(traced, query.get("before"), query["limit"])
        items = [_update(shaping) for shaping in shapings]
        return Response(
            {"version": traced.version, "step": traced.step, "items": items, "more": more}
        )


class TraceOfRating(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="ratings_trace", responses=RatingTrace)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return the steps and weight versions that a rating influenced.

        Only owners and researchers see the ratings of others. Raters who rate the run blind see
        only whether the rating was late.
        """
        rows = Rating.objects.visible_to(request.user).select_related("run", "item", "rollout")
        rating = get_object_or_404(rows, pk=min(pk, 2**63 - 1))
        if (
            rating.rater_id != request.user.pk
            and not Run.objects.steered_by(request.user).filter(pk=rating.run_id).exists()
        ):
            raise Http404
        trace = forward(rating) if sees_judgements(request.user, rating.run) else None
        return Response(
            {
                "rating": rating.pk,
                "run": rating.run_id,
                "is_late": rating.is_late,
                **_forward(trace),
            }
        )


class Replays(APIView):
    permission_classes = [MaySteer]

    @extend_schema(operation_id="runs_replay", request=NewReplay, responses={201: RunDocument})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Create a run from this run's recorded data, without starting it.

        It excludes the given people and tasks, or uses the rewards of a rescoring.
        """
        form = NewReplay(data=request.data)
        run = get_traced_run(request, pk)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        new_set = (
            get_object_or_404(run.rescorings, pk=data["rescoring"]) if "rescoring" in data else None
        )
        try:
            proposal = propose(run, data["without_raters"], data["without_tasks"], new_set)
            replay = create_replay(
                proposal,
                data.get("slug", proposal.slug),
                data.get("title", proposal.title),
                request.user,
            )
        except (NothingToReplay, NotPossible, ConfigError) as refusal:
            if isinstance(refusal, NothingToReplay) and refusal.kind:
                field = f"without_{refusal.kind}"
                raise serializers.ValidationError({field: [str(refusal)]}) from None
            raise Conflict(str(refusal)) from None
        return Response(RunDocument(replay, context={"open_runs": {replay.pk}}).data, 201)


class Exports(APIView):
    permission_classes = [MayRead]

    @extend_schema(
        operation_id="runs_export",
        parameters=[ExportQuery, OpenApiParameter("kind", str, OpenApiParameter.PATH, enum=KINDS)],
        responses={(200, f.content_type): OpenApiTypes.BINARY for f in FORMATS.values()},
    )
    def get(self, request: ApiRequest, pk: int, kind: str) -> StreamingHttpResponse:
        """Return the run's human data as a file."""
        query = ExportQuery.of(request)
        run = get_traced_run(request, pk)
        if kind not in KINDS:
            raise Http404(f"no export {kind}")
        since: datetime | None = query.get("since")
        selection = RowSelection(run, query.get("form", ""), since, query["pseudonyms"])
        return file_response(request._request, kind, selection, query["file"])


def _update(shaping: UpdateInfluence) -> dict:
    return {
        "step": shaping.step.number,
        "rollouts": shaping.rollouts,
        "rater_models": sorted(shaping.models),
        "ratings": [
            {
                "id": rating.pk,
                "rater": rating.rater.username,
                "is_simulated": rating.rater.is_simulated,
                "form": rating.form,
            }
            for rating in shaping.ratings
        ],
        "demonstrations": [answer.pk for answer in shaping.answers],
    }


def _forward(trace: RatingEffects | None) -> dict:
    if trace is None:
        return dict.fromkeys(
            ("uses", "rater_model", "by_rater_model", "demonstrations", "replays", "lessons")
        )
    return {
        "uses": [_use(use) for use in trace.uses],
        "rater_model": trace.model and trace.model.number,
        "by_rater_model": _use(trace.by_model) if trace.by_model else None,
        "demonstrations": [_use(use) for use in trace.answers],
        "replays": [run.pk for run in trace.replays],
        "lessons": [run.pk for run in trace.lessons],
    }


def _use(use: Use) -> dict:
    return {"step": use.step.number, "version": use.version and use.version.version}
