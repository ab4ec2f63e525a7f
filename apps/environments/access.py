"""Which environments and episodes a request may look at, and which it may play: by projects, roles and the token's scopes."""

from dataclasses import dataclass

from django.http import Http404
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.locking import lock_first
from apps.accounts.models import Project, Token, User
from apps.environments.models import Environment, Episode

WRITES = "env:write"
# What is read to show an episode (apps.environments.schemas.EpisodeDocument): a rollout's row is long.
SHOWN = (
    *(field.name for field in Episode._meta.concrete_fields),
    "environment__project__slug", "environment__name", "rollout__group__task__index", "rollout__group__task__prompt",
    "rollout__group__task__answer",
)  # fmt: skip


@dataclass(frozen=True)
class Asker:
    """Who asks where there is no REST request: a person, or with `auth` a program that speaks for one."""

    user: User
    auth: Token | None = None


class MayLook(BasePermission):
    """People, and tokens that may read or write any environment."""

    message = "This token lacks the scope `read`, or one of the form `env:write:<name>`."

    def has_permission(self, request: Request, view: object) -> bool:
        if not request.user.is_authenticated:
            return False
        return request.auth is None or Token.Scope.READ in request.auth.scopes or request.auth.may_any(WRITES)


class MayPlay(BasePermission):
    """People, and tokens that may write any environment; which of them, `require_to_play` asks."""

    message = "This token lacks a scope of the form `env:write:<name>`."

    def has_permission(self, request: Request, view: object) -> bool:
        return request.user.is_authenticated and (request.auth is None or request.auth.may_any(WRITES))


def require_scope(request: Request | Asker, name: str) -> None:
    """Raises PermissionDenied when the token may not write the environment of this name."""
    if request.auth is not None and not request.auth.may(WRITES, name):
        raise PermissionDenied(f"This token lacks the scope `{WRITES}:{name}`.")


def require_to_play(request: Request | Asker, environment: Environment) -> None:
    """Raises PermissionDenied: what an environment says is reward, and given by those who may steer runs there."""
    if not Project.objects.run_by(request.user).filter(pk=environment.project_id).exists():
        raise PermissionDenied("You may look at this environment, not play it.")
    require_scope(request, environment.name)


def environment_of(request: Request, name: str, project: str | None) -> Environment:
    """The environment of that name that the asker sees. Raises Http404, or ValidationError where several projects have one."""
    found = Environment.objects.visible_to(request.user).filter(name=name).select_related("project").distinct()
    if project is not None:
        found = found.filter(project__slug=project)
    match list(found[:20]):
        case [one]:
            return one
        case []:
            raise Http404
        case several:
            slugs = ", ".join(sorted(one.project.slug for one in several))
            raise serializers.ValidationError({"project": [f"Several projects have one of this name; say which: {slugs}."]})


def home_of(request: Request, slug: str | None) -> Project:
    """The project in which to register. Raises ValidationError."""
    mine = Project.objects.run_by(request.user).distinct()
    if slug is not None:
        mine = mine.filter(slug=slug)
    match list(mine[:2]):
        case [one]:
            return one
        case []:
            raise serializers.ValidationError({"project": ["There is no such project in which you may register environments."]})
        case _:
            raise serializers.ValidationError({"project": ["You may register in several projects; say in which."]})


def episode_of(request: Request | Asker, pk: int) -> Episode:
    """An episode that the asker sees, as it is shown. Raises Http404."""
    rows = Episode.objects.visible_to(request.user).select_related("environment__project", "rollout__group__task")
    episode = rows.only(*SHOWN).filter(pk=pk).first()
    if episode is None:
        raise Http404
    return episode


def played_by(request: Request | Asker, pk: int, to_write: bool = False) -> Episode:
    """An episode that the asker plays; `to_write`: nobody else's to write until the transaction ends.

    One statement where that is so: it is asked before every turn. Raises Http404, PermissionDenied.
    """
    mine = Episode.objects.filter(client=request.user, environment__project__in=Project.objects.run_by(request.user))
    mine = mine.filter(pk=pk).select_related("environment")
    episode = lock_first(mine) if to_write else mine.first()
    if episode is None:
        require_to_play(request, episode_of(request, pk).environment)
        raise PermissionDenied("You do not play this episode: open one of your own.")
    require_scope(request, episode.environment.name)
    return episode
