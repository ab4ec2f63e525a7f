"""REST API of environments: register, show and change one, and take an episode to play."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ValidationError
from django.db import transaction
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts import idempotency
from apps.accounts.listing import list_page, page_serializer
from apps.accounts.locking import lock_one
from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.problems import Conflict, NotNow
from apps.accounts.requests import ApiRequest
from apps.environments.access import (
    MayLook,
    MayPlay,
    find_registering_project,
    get_environment,
    get_episode,
    require_scope,
    require_to_play,
)
from apps.environments.episode_opening import assign_episode
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment
from apps.environments.pull.registering import register_service, require_callable
from apps.environments.rest_errors import convert_refusal, why_none_waits
from apps.environments.schemas import (
    REGISTERED,
    EnvironmentChanges,
    EnvironmentDocument,
    EnvironmentQuery,
    EpisodeDocument,
    NewEnvironment,
    NewEpisode,
    ProjectQuery,
)

REGISTERING = OpenApiExample(
    "a maze",
    request_only=True,
    value={
        "project": "demo",
        "name": "maze",
        "version": "3",
        "reward_low": -1,
        "reward_high": 1,
        "turn_limit": 20,
        "turn_s": 10,
    },
)


class Looked(APIView):
    """The base of views: GET needs permission to look, other methods to play."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayLook() if self.request.method == "GET" else MayPlay()]


class Environments(Looked):
    @extend_schema(
        operation_id="environments_list",
        parameters=[EnvironmentQuery],
        responses=page_serializer(EnvironmentDocument),
    )
    def get(self, request: ApiRequest) -> Response:
        """List the environments of your projects, the newest first."""
        query = EnvironmentQuery.of(request)
        rows = Environment.objects.visible_to(request.user).select_related("project").distinct()
        if "project" in query:
            rows = rows.filter(project__slug=query["project"])
        if "kind" in query:
            rows = rows.filter(kind=query["kind"])
        return Response(list_page(rows, query, EnvironmentDocument))

    @extend_schema(
        operation_id="environments_create",
        request=NewEnvironment,
        parameters=[idempotency.PARAMETER],
        examples=[REGISTERING],
        responses={
            201: EnvironmentDocument,
            200: OpenApiResponse(EnvironmentDocument, "It already exists with these values."),
        },
    )
    @idempotency.once
    def post(self, request: ApiRequest) -> Response:
        """Register an environment.

        It either calls rftweb, or has a `kind` and an `address` that rftweb calls. Returns 409 if
        an environment of this name exists; change that one with PATCH.
        """
        form = NewEnvironment(data=request.data)
        form.is_valid(raise_exception=True)
        fields = form.validated_data
        require_scope(request, fields["name"])
        project = find_registering_project(request, fields.pop("project", None))
        name = fields.pop("name")
        with transaction.atomic():
            # Serialise concurrent registrations of one name.
            lock_one(Project.objects.filter(pk=project.pk))
            existing = Environment.objects.filter(project=project, name=name).first()
            if existing is not None and _differ(existing, fields):
                raise Conflict(
                    f"project {project.slug!r} already has another environment {name!r}; change it "
                    "with PATCH"
                )
            environment = existing or _registered(project, name, created_by=request.user, **fields)
        environment.refresh_from_db()
        return Response(EnvironmentDocument(environment).data, 200 if existing else 201)


class OneEnvironment(Looked):
    @extend_schema(
        operation_id="environments_show", parameters=[ProjectQuery], responses=EnvironmentDocument
    )
    def get(self, request: ApiRequest, name: str) -> Response:
        """Return an environment and the state of its circuit breaker."""
        return Response(
            EnvironmentDocument(
                get_environment(request, name, ProjectQuery.of(request).get("project"))
            ).data
        )

    @extend_schema(
        operation_id="environments_change",
        parameters=[ProjectQuery, idempotency.PARAMETER],
        request=EnvironmentChanges,
        responses=EnvironmentDocument,
    )
    @idempotency.once
    def patch(self, request: ApiRequest, name: str) -> Response:
        """Change the given fields of an environment, and no others.

        Works for environments that call rftweb, and for those that rftweb calls at an address.
        """
        environment = get_environment(request, name, ProjectQuery.of(request).get("project"))
        require_to_play(request, environment)
        if environment.kind not in REGISTERED:
            raise Conflict("This environment is part of rftweb; change it in the administration.")
        form = EnvironmentChanges(environment, data=request.data)
        form.is_valid(raise_exception=True)
        for field, value in form.validated_data.items():
            setattr(environment, field, value)
        if {"address", "options"} & form.validated_data.keys():
            with refused_by_field():
                require_callable(environment)
        with transaction.atomic():
            environment.save(update_fields=list(form.validated_data))
            target = f"environment {environment.project.slug}/{environment.name}"
            fields = sorted(form.validated_data)
            AuditEntry.record(
                "environment changed", target, request.user, environment.project, fields=fields
            )
        return Response(EnvironmentDocument(environment).data)


class EpisodesOf(APIView):
    permission_classes = [MayPlay]

    @extend_schema(
        operation_id="episodes_open",
        request=NewEpisode,
        parameters=[idempotency.PARAMETER],
        responses={
            201: EpisodeDocument,
            200: OpenApiResponse(EpisodeDocument, "You already have the episode with this key."),
        },
    )
    @idempotency.once
    def post(self, request: ApiRequest, name: str) -> Response:
        """Take an episode that waits for a player.

        A run whose configuration names the environment opens episodes while it is running, as
        many as its staleness limit allows. Returns 429, with the reason and the time to retry, if
        no episode waits.
        """
        form = NewEpisode(data=request.data)
        form.is_valid(raise_exception=True)
        key = form.validated_data["key"]
        run = form.validated_data["run"]
        environment = get_environment(request, name, form.validated_data.get("project"))
        require_to_play(request, environment)
        if environment.kind != Environment.Kind.PUSH:
            raise Conflict(
                f"rftweb calls this environment ({environment.get_kind_display()}), so you cannot "
                "take its episodes."
            )
        key_exists = bool(key) and environment.episodes.filter(key=key).exists()
        try:
            episode = assign_episode(
                environment, request.user, key, run, outside=form.validated_data["outside"]
            )
        except CannotPlay as why:
            raise convert_refusal(why) from why
        if episode is None:
            raise NotNow(*why_none_waits(environment, run))
        return Response(
            EpisodeDocument(get_episode(request, episode.pk)).data, 200 if key_exists else 201
        )


def _registered(
    project: Project, name: str, kind: str, address: str, created_by: User, **fields: object
) -> Environment:
    with refused_by_field():
        return register_service(project, name, kind, address, created_by, **fields)


@contextmanager
def refused_by_field() -> Iterator[None]:
    """Convert a model's ValidationError to the REST one."""
    try:
        yield
    except ValidationError as refusal:
        raise serializers.ValidationError(refusal.message_dict) from refusal


def _differ(environment: Environment, fields: dict) -> bool:
    return any(getattr(environment, field) != value for field, value in fields.items())
