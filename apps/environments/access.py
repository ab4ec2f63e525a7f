"""Permissions: the environments and episodes that a request may see, and those it may play.

They depend on projects, roles and the token's scopes.
"""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import Http404
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.compiled_queries import compiled_query
from apps.accounts.locking import lock_rows, rows_to_lock
from apps.accounts.models import Project, Token, User
from apps.accounts.requests import ApiRequest, find_token
from apps.environments.models import Environment, Episode

WRITES = "env:write"
# The columns needed to show an episode (apps.environments.schemas.EpisodeDocument): a rollout's row
# is wide.
SHOWN = (
    *(field.name for field in Episode._meta.concrete_fields),
    "environment__project__slug",
    "environment__name",
    "rollout__group__task__index",
    "rollout__group__task__prompt",
    "rollout__group__task__answer",
)


@dataclass(frozen=True)
class Asker:
    """The user of a request outside REST: a person, or with `auth` a program with a token."""

    user: User
    auth: Token | None = None


class MayLook(BasePermission):
    """Permission for people, and for tokens that may read or write any environment."""

    message = "This token lacks the scope `read`, or one of the form `env:write:<name>`."

    def has_permission(self, request: Request, view: object) -> bool:
        if not request.user.is_authenticated:
            return False
        token = find_token(request)
        return token is None or Token.Scope.READ in token.scopes or token.may_any(WRITES)


class MayPlay(BasePermission):
    """Permission for people, and for tokens that may write any environment.

    `require_to_play` checks the particular environment.
    """

    message = "This token lacks a scope of the form `env:write:<name>`."

    def has_permission(self, request: Request, view: object) -> bool:
        token = find_token(request)
        return request.user.is_authenticated and (token is None or token.may_any(WRITES))


def require_scope(request: ApiRequest | Asker, name: str) -> None:
    """Raise PermissionDenied when the token may not write the environment of this name."""
    if request.auth is not None and not request.auth.may(WRITES, name):
        raise PermissionDenied(f"This token lacks the scope `{WRITES}:{name}`.")


def require_to_play(request: ApiRequest | Asker, environment: Environment) -> None:
    """Raise PermissionDenied unless the user may steer runs in the environment's project.

    An environment's replies are rewards, so playing one steers training.
    """
    if not Project.objects.run_by(request.user).filter(pk=environment.project_id).exists():
        raise PermissionDenied("You can view this environment, but you cannot play in it.")
    require_scope(request, environment.name)


def get_environment(request: ApiRequest, name: str, project: str | None) -> Environment:
    """Return the environment of this name that the user can see.

    Raises Http404, or ValidationError where several projects have one.
    """
    environments = (
        Environment.objects.visible_to(request.user)
        .filter(name=name)
        .select_related("project")
        .distinct()
    )
    if project is not None:
        environments = environments.filter(project__slug=project)
    match list(environments[:20]):
        case [environment]:
            return environment
        case []:
            raise Http404
        case several:
            slugs = ", ".join(sorted(environment.project.slug for environment in several))
            raise serializers.ValidationError(
                {"project": [f"Several projects have one of this name; use one of: {slugs}."]}
            )


def find_registering_project(request: ApiRequest, slug: str | None) -> Project:
    """Return the project in which to register. Raises ValidationError."""
    projects = Project.objects.run_by(request.user).distinct()
    if slug is not None:
        projects = projects.filter(slug=slug)
    match list(projects[:2]):
        case [project]:
            return project
        case []:
            raise serializers.ValidationError(
                {"project": ["There is no such project in which you can add environments."]}
            )
        case _:
            raise serializers.ValidationError(
                {"project": ["You can add environments to several projects; name one."]}
            )


def get_episode(request: ApiRequest | Asker, pk: int) -> Episode:
    """Return an episode that the user can see, for display. Raises Http404."""
    rows = Episode.objects.visible_to(request.user).select_related(
        "environment__project", "rollout__group__task"
    )
    episode = rows.only(*SHOWN).filter(pk=pk).first()
    if episode is None:
        raise Http404
    return episode


def get_played_episode(request: ApiRequest | Asker, pk: int, to_write: bool = False) -> Episode:
    """Return an episode that the user plays; with `to_write`, locked until the transaction ends.

    One statement in the usual case, since every turn calls it. Raises Http404, PermissionDenied.
    """
    user = request.user
    if user.is_superuser:
        played = _played_episodes(pk, user.pk, Project.objects.run_by(user))
        episodes = lock_rows(played) if to_write else list(played)
    else:
        episodes = (_lock_played_by_member if to_write else _played_by_member)(pk, user.pk)
    if not episodes:
        require_to_play(request, get_episode(request, pk).environment)
        raise PermissionDenied("You do not play this episode; open one of your own.")
    require_scope(request, episodes[0].environment.name)
    return episodes[0]


def _played_episodes(pk: int, user: int, projects: QuerySet[Project]) -> QuerySet[Episode]:
    episodes = Episode.objects.filter(pk=pk, client=user, environment__project__in=projects)
    return episodes.select_related("environment")


@compiled_query
def _played_by_member(pk: int, user: int) -> QuerySet[Episode]:
    return _played_episodes(pk, user, Project.objects.steered_by(user))


@compiled_query
def _lock_played_by_member(pk: int, user: int) -> QuerySet[Episode]:
    return rows_to_lock(_played_episodes(pk, user, Project.objects.steered_by(user)))
