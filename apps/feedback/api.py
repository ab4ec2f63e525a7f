"""REST API of ratings: the queue of a user, and new ratings."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import User
from apps.accounts.problems import by_field
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRate
from apps.feedback.models import Rating
from apps.feedback.ratings.stars import (
    EnoughRated,
    NotHeld,
    NotRatable,
    Stars,
    UsedForAnother,
    give_many,
    waiting_rollouts,
)
from apps.feedback.schemas import (
    NewRating,
    NewRatings,
    NewRatingsShape,
    QueueQuery,
    RatingResults,
    WaitingRollouts,
)
from apps.rollouts.models import Rollout

ATOMICITY = """Takes up to 500 ratings. Each is checked by itself: a refused one does not stop the
others, and result i answers rating i. The ratings of one group are stored in one transaction, and
the response is sent after its commit. A rating sent again under the same client_uuid changes
nothing.

A person has one current rating of a rollout. Without a claim on its item, a rating is accepted
while fewer than the run's `overlap` people have rated or hold the rollout (else 409), and only if
the run allows it with `open_stars` (else 403)."""


class Ratings(APIView):
    permission_classes = [MayRate]

    @extend_schema(
        operation_id="ratings_create",
        description=ATOMICITY,
        request=NewRatingsShape,
        responses={
            201: OpenApiResponse(RatingResults, "All ratings saved."),
            207: OpenApiResponse(RatingResults, "Some ratings rejected."),
        },
    )
    def post(self, request: ApiRequest) -> Response:
        form = NewRatings(data=request.data)
        form.is_valid(raise_exception=True)
        results = save_ratings(request.user, form.validated_data["ratings"])
        refused = any(result["status"] >= 400 for result in results)
        return Response({"results": results}, 207 if refused else 201)


class RatingQueue(APIView):
    permission_classes = [MayRate]

    @extend_schema(
        operation_id="rating_queue_list", parameters=[QueueQuery], responses=WaitingRollouts
    )
    def get(self, request: ApiRequest) -> Response:
        """List the rollouts that wait for your rating, the most urgent deadline first."""
        query = QueueQuery.of(request)
        rows = waiting_rollouts(request.user).select_related("group__task")[: query["limit"]]
        return Response(WaitingRollouts({"items": rows}).data)


def save_ratings(rater: User, documents: list[object]) -> list[dict]:
    """Save the ratings and return the result of each, in order."""
    forms = [NewRating(data=document) for document in documents]
    submissions = [
        Stars(**renamed(form.validated_data)) if form.is_valid() else None for form in forms
    ]
    good = [submission for submission in submissions if submission]
    outcomes = iter(give_many(rater, good))
    rated = Rollout.objects.filter(pk__in={submission.rollout_id for submission in good})
    visible = set(rated.visible_to(rater).values_list("pk", flat=True))
    return [
        rating_result(submission, next(outcomes), visible) if submission else unacceptable(form)
        for submission, form in zip(submissions, forms, strict=True)
    ]


def renamed(data: dict) -> dict:
    return {
        "rollout_id": data["rollout"],
        "stars": data["stars"],
        "client_uuid": data["client_uuid"],
    }


def rating_result(submission: Stars, outcome: Rating | NotRatable, visible: set[int]) -> dict:
    """Return the result of one rating. A repeated rating gets the same answer as the first time."""
    if isinstance(outcome, NotHeld):
        return refusal(403, str(outcome))
    if isinstance(outcome, EnoughRated | UsedForAnother):
        return refusal(409, str(outcome))
    if isinstance(outcome, NotRatable):
        if submission.rollout_id in visible:
            return refusal(
                409,
                "This rollout is still being written, has failed, or you may look but not rate"
                " here.",
            )
        return refusal(404, "The rollout doesn’t exist, or you don’t have access.")
    if outcome.stars != submission.stars:
        return refusal(
            409,
            f"This client_uuid was used for {outcome.stars} stars; a change of mind needs a new"
            " one.",
        )
    return {"status": 201, "rating": outcome.pk, "is_late": outcome.is_late, "detail": ""}


def unacceptable(form: NewRating) -> dict:
    return refusal(422, "; ".join(f"{field}: {words[0]}" for field, words in by_field(form.errors)))


def refusal(status: int, detail: str) -> dict:
    return {"status": status, "rating": None, "is_late": False, "detail": detail}
