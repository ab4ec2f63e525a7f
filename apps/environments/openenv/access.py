"""Permissions of outside clients: a token with the scope `env:play:<name>`.

Its user must be allowed to start runs in the project. The token is in the header `Authorization`,
as a bearer token or as the password of Basic: clients build that from ~/.netrc or from a user in
the address. So a program that accepts no header (`openenv validate`) need not put the token into a
URL that we see or log.
"""

import base64
import binascii
from dataclasses import dataclass

from django.db.models import Q
from rest_framework.exceptions import AuthenticationFailed

from apps.accounts.authentication import find_token, note_use
from apps.accounts.models import Project, Token
from apps.accounts.second_factor import must_set_up_second_factor
from apps.environments.models import Environment

PLAYS = "env:play"
NO_TOKEN = (
    "Send a valid token with the scope `env:play:<name>`: as `Authorization: Bearer`, or as the "
    "password of Basic."
)
NOTHING = "There is no such environment, or you have no access."


class Refused(Exception):
    """Raised with an HTTP `status`; the message says what is right."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True)
class OpenEnvClient:
    """The token of an outside client, and the environment in which it acts."""

    token: Token
    environment: Environment


def identify_guest(header: bytes, project: str | None, name: str) -> OpenEnvClient:
    """Return the client of this header.

    Raises Refused: 401 without a valid token, and as `admitted` does.
    """
    try:
        token = presented(header)
    except AuthenticationFailed as why:
        raise Refused(401, str(why.detail)) from None
    if token is None:
        raise Refused(401, NO_TOKEN)
    return admitted(token, project, name)


def admitted(token: Token, project: str | None, name: str) -> OpenEnvClient:
    """Return the client if it may act in this environment.

    Raises Refused: 403 scope or role, 404, 409 if several projects have an environment of this
    name.
    """
    if not token.may(PLAYS, name):
        raise Refused(403, f"This token lacks the scope `{PLAYS}:{name}`.")
    note_use(token)
    return OpenEnvClient(token, _environment(token, project, name))


def presented(header: bytes) -> Token | None:
    """Return the valid token of this header, if any. Raises AuthenticationFailed."""
    scheme, _, credentials = header.strip().partition(b" ")
    secret = credentials.strip()
    if scheme.lower() == b"basic":
        secret = _password(secret)
    elif scheme.lower() != b"bearer":
        return None
    return find_token(secret)


def _password(credentials: bytes) -> bytes:
    try:
        return base64.b64decode(credentials, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _environment(token: Token, project: str | None, name: str) -> Environment:
    of_project = Q() if project is None else Q(project__slug=project)
    matches = Environment.objects.filter(of_project, name=name).select_related(
        "project", "created_by"
    )
    match list(matches.filter(project__in=Project.objects.run_by(token.user)).distinct()[:20]):
        case [environment]:
            return environment
        case []:
            if matches.visible_to(token.user).exists():
                raise Refused(403, "You can view this environment, but you cannot play in it.")
            raise Refused(404, NOTHING)
        case several:
            ways = ", ".join(
                sorted(f"/openenv/{environment.project.slug}/{name}/" for environment in several)
            )
            raise Refused(409, f"Several projects have one of this name; use one of: {ways}")


def why_not_any_more(guest: OpenEnvClient) -> str:
    """Return why this client must leave; "" as long as it may stay."""
    still = Token.objects.select_related("user").alive().filter(pk=guest.token.pk).first()
    if still is None or not still.user.is_active:
        return "its token has expired or was revoked"
    if must_set_up_second_factor(still.user):
        return "its user must set up two-factor authentication first"
    if not Project.objects.run_by(still.user).filter(pk=guest.environment.project_id).exists():
        return "its user may no longer play here"
    return ""
