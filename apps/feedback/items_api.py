"""Items over REST: a program claims, decides, passes over and gives back for its person, as the rating page does."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.documents import LARGEST_ID, Strict, Text, Uuid, Whole
from apps.accounts.problems import Conflict
from apps.accounts.scopes import MayRate
from apps.feedback.claiming import MOST_AT_ONCE, NotHeld, claim, release, skip
from apps.feedback.forms import FORMS, BadAnswer
from apps.feedback.keeping import keep
from apps.feedback.submitting import Refused, Submission, submit
from apps.rollouts.schemas import Message

LONGEST_REASON = 300


class Claim(Strict):
    """How many items to hold, of which run."""

    run = Whole(
        required=False, allow_null=True, default=None, min_value=1, max_value=LARGEST_ID, help_text="Of any run if left out."
    )
    count = Whole(required=False, default=1, min_value=1, max_value=MOST_AT_ONCE)


class Shown(serializers.Serializer):
    rollout = serializers.IntegerField(source="id")
    text = serializers.CharField(allow_blank=True)


class HeldItem(serializers.Serializer):
    """An item in your hands."""

    slot = serializers.IntegerField(source="slot_id", help_text="Names your hold on it.")
    fence = serializers.IntegerField(help_text="Sent back with the decision.")
    version = serializers.IntegerField(help_text="Sent back with the decision.")
    lease_s = serializers.FloatField(help_text="Seconds until somebody else may get it.")
    form = serializers.ChoiceField(choices=sorted(FORMS))
    run = serializers.IntegerField(source="run_id")
    group = serializers.IntegerField(source="group_id")
    prompt = Message(many=True)
    replies = Shown(source="members", many=True, help_text="In the order in which they are compared.")


class HeldItems(serializers.Serializer):
    items = HeldItem(many=True)


class Decision(Strict):
    """What you decide about an item. The answer's fields are those of its form (docs/people.md)."""

    client_uuid = Uuid(help_text="Made by you; sent again it is the same rating.")
    fence = Whole(min_value=0, max_value=LARGEST_ID)
    version = Whole(min_value=0, max_value=2**31 - 1)
    form = serializers.ChoiceField(choices=sorted(FORMS))
    answer = serializers.DictField(help_text='Such as {"stars": 4}.')
    critique = Text(required=False, default="", allow_blank=True, trim_whitespace=False)
    seconds = serializers.FloatField(required=False, allow_null=True, default=None, min_value=0, max_value=86_400)
    replaces = Uuid(
        required=False, allow_null=True, default=None, help_text="The client_uuid of your decision that this one changes."
    )


class Receipt(serializers.Serializer):
    """What became of a decision."""

    rating = serializers.IntegerField(help_text="Its id.")
    is_late = serializers.BooleanField(help_text="Its group was closed already: kept, not trained on.")
    gold = serializers.DictField(allow_null=True, help_text="Whether a known answer was met, where the run tells it.")


class Hold(Strict):
    fence = Whole(min_value=0, max_value=LARGEST_ID)


class Kept(serializers.Serializer):
    lease_s = serializers.FloatField()


class PassedOver(Hold):
    reason = Text(required=False, default="", allow_blank=True, max_length=LONGEST_REASON)


class Claims(APIView):
    permission_classes = [MayRate]

    @extend_schema(operation_id="rating_items_claim", request=Claim, responses={200: HeldItems})
    def post(self, request: Request) -> Response:
        """Hold the most urgent items that wait for you; none when none do, or when you hold as many as the run allows."""
        asked = _valid(Claim, request)
        return Response(HeldItems({"items": claim(request.user, asked["run"], asked["count"])}).data)


class Slots(APIView):
    permission_classes = [MayRate]

    @extend_schema(
        operation_id="rating_slots_decide",
        request=Decision,
        responses={201: Receipt, 200: OpenApiResponse(Receipt, "It was taken when it was sent before.")},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Decide an item in your hands. 409 when it is somebody else's by now, was changed, or is decided."""
        asked = _valid(Decision, request)
        try:
            taken = submit(request.user, pk, Submission(**asked))
        except BadAnswer as bad:
            raise serializers.ValidationError({name: [words] for name, words in bad.problems.items()}) from bad
        except Refused as refused:
            raise (exceptions.NotFound if refused.code == "gone" else Conflict)(str(refused)) from refused
        said = {"rating": taken.rating_id, "is_late": taken.is_late, "gold": taken.gold}
        return Response(Receipt(said).data, 201 if taken.is_new else 200)


class SlotAct(APIView):
    """`keep`, `release` or `skip`."""

    permission_classes = [MayRate]


class KeepSlot(SlotAct):
    @extend_schema(operation_id="rating_slots_keep", request=Hold, responses={200: Kept})
    def post(self, request: Request, pk: int) -> Response:
        """Say that you are still at it; answers with the seconds left from now. 409 when it is somebody else's by now."""
        try:
            return Response(Kept({"lease_s": keep(request.user, pk, _valid(Hold, request)["fence"])}).data)
        except NotHeld as lost:
            raise Conflict(lost.next) from lost


class ReleaseSlot(SlotAct):
    @extend_schema(operation_id="rating_slots_release", request=Hold, responses={204: None})
    def post(self, request: Request, pk: int) -> Response:
        """Give it back untouched."""
        release(request.user, pk, _valid(Hold, request)["fence"])
        return Response(status=204)


class SkipSlot(SlotAct):
    @extend_schema(operation_id="rating_slots_skip", request=PassedOver, responses={204: None})
    def post(self, request: Request, pk: int) -> Response:
        """Pass it over: it goes to others, and not to you again."""
        asked = _valid(PassedOver, request)
        try:
            skip(request.user, pk, asked["fence"], asked["reason"])
        except NotHeld as lost:
            raise Conflict(lost.next) from lost
        return Response(status=204)


def _valid(shape: type[Strict], request: Request) -> dict:
    asked = shape(data=request.data)
    asked.is_valid(raise_exception=True)
    return asked.validated_data
