"""What the REST addresses of deletions share: those of runs and those of projects."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.documents import Strict
from apps.accounts.problems import Conflict
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead, MaySteer
from apps.runs.deleting import JOB, Contents
from apps.runs.models import NotPossible, ProjectRemoval, RunRemoval
from apps.streaming import wakeups


class DeletionPlan(serializers.Serializer[Any]):
    """What a deletion would delete and keep, and what prevents it."""

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


class DeletionView(APIView):
    """A view of deletions of one kind: GET for who may read, POST for who may steer.

    A subclass for each kind names the model and the form of its deletions.
    """

    kind: ClassVar[str]
    removals: ClassVar[type[RunRemoval] | type[ProjectRemoval]]
    related: ClassVar[tuple[str, ...]]
    form: ClassVar[type[serializers.ModelSerializer[Any]]]
    confirmation: ClassVar[type[Strict]]
    may_not: ClassVar[str]

    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "POST" else MayRead()]

    def visible(self, request: ApiRequest) -> QuerySet[Any]:
        """Return the deletions that the user may follow."""
        return self.removals.objects.visible_to(request.user).select_related(*self.related)

    def show(self, request: ApiRequest, pk: int) -> Response:
        return Response(self.form(get_object_or_404(self.visible(request), pk=pk)).data)

    def plan(self, contents: Contents, reasons: list[str]) -> Response:
        """Answer what the deletion takes and leaves."""
        return Response(
            {
                "deleted": {plural: count for count, _, plural in contents.goes},
                "kept": {plural: count for count, _, plural in contents.stays},
                "bytes": contents.bytes,
                "reasons": reasons,
            }
        )

    def require_confirmation(self, request: ApiRequest, slug: str) -> None:
        """Check that the request contains the name of what it deletes. Raises ValidationError."""
        form = self.confirmation(data=request.data)
        form.is_valid(raise_exception=True)
        if form.validated_data["name"] != slug:
            raise ValidationError({"name": [f"To confirm, send the {self.kind}'s slug: {slug}"]})

    def try_again(self, request: ApiRequest, pk: int) -> Response:
        """Let a worker continue a deletion that failed, for owners of its project."""
        removal = get_object_or_404(self.visible(request), pk=pk)
        if not removal.may_be_tried_again_by(request.user):
            raise PermissionDenied(self.may_not)
        try:
            removal.try_again(request.user)
        except NotPossible as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        wakeups.send(JOB)
        removal.refresh_from_db()
        return Response(self.form(removal).data)
