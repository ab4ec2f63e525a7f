"""Authenticate agents: a bearer key names the run, and a header or the key's end names the episode.

The key is a token of ours with the scope `agent:<run>`. `<key>.<name>` is the same key for one
episode, so an agent that accepts nothing but an API key can still play in a named episode.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.authentication import MAX_SECRET_LENGTH, SCHEME, find_token, note_use
from apps.accounts.models import Project, Token, User
from apps.environments.agents.refusals import Refused, refuse_field
from apps.environments.environment_lookup import find_or_register
from apps.environments.models import Environment
from apps.runs.models import Run

HEADER = "X-Rftweb-Episode"
SCOPE = re.compile(r"agent:([1-9][0-9]{0,17})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
UNKNOWN = "This API key is unknown, expired or revoked. Use a token with the scope `agent:<run>`."


@dataclass(frozen=True)
class Caller:
    """An agent of `user` on this run.

    `episode` is the agent's name for its episode; "" for a new one for this call.
    """

    user: User
    run: Run
    environment: Environment
    episode: str

    is_authenticated: ClassVar[bool] = True
    is_active: ClassVar[bool] = True

    @property
    def pk(self) -> int:
        return self.user.pk


def get_caller(request: Request) -> Caller:
    """Return who sent a request that `AgentKey` has authenticated."""
    caller: object = request.user
    assert isinstance(caller, Caller)
    return caller


class AgentKey(BaseAuthentication):
    """Authentication by key. Raises AuthenticationFailed (401), Refused (403, 409, 422)."""

    def authenticate(self, request: Request) -> tuple[Caller, Token]:
        token, name = self._read_token(get_authorization_header(request).split())
        run = find_run_by_token(token)
        episode_name = request.headers.get(HEADER, "") or name
        if episode_name and not NAME.fullmatch(episode_name):
            rule = "use letters, digits, - and _; at most 100, the first a letter or digit"
            raise refuse_field(HEADER, rule)
        note_use(token)
        return Caller(token.user, run, find_agent_environment(run), episode_name), token

    def authenticate_header(self, request: Request) -> str:
        return SCHEME

    def _read_token(self, words: list[bytes]) -> tuple[Token, str]:
        if (
            len(words) != 2
            or words[0].lower() != SCHEME.lower().encode()
            or len(words[1]) > 2 * MAX_SECRET_LENGTH
        ):
            raise AuthenticationFailed(UNKNOWN)
        secret, _, name = words[1].partition(b".")
        token = find_token(secret)
        if token is None:
            raise AuthenticationFailed(UNKNOWN)
        return token, name.decode("latin-1")


def find_run_by_token(token: Token) -> Run:
    """Return the run of the token, if its user may still steer the project.

    Raises Refused (403).
    """
    runs = [int(match[1]) for scope in token.scopes if (match := SCOPE.fullmatch(scope))]
    if len(runs) != 1:
        raise Refused(
            403,
            "insufficient_permissions",
            "This key has no scope `agent:<run>`, or several; create one for this run.",
        )
    projects = Project.objects.run_by(token.user)
    run = (
        Run.objects.filter(pk=runs[0], project__in=projects)
        .select_related("project", "policy")
        .first()
    )
    if run is None:
        raise Refused(
            403,
            "insufficient_permissions",
            "The run of this key does not exist, or its user cannot train it.",
        )
    return run


def find_agent_environment(run: Run) -> Environment:
    """Return the run's agent environment. Raises Refused (409) for a run without one."""
    choice = run.settings.environment
    environment = find_or_register(run.project, choice.name) if choice else None
    if environment is None or environment.kind != Environment.Kind.AGENT:
        raise Refused(
            409,
            "no_agents",
            f"Run {run.slug} does not serve agents: its `environment` must be of kind agent.",
        )
    return environment
