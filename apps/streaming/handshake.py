"""Who may knock at a socket: signed-in people's browsers from our own origin, and, at some, programs with a token."""

from channels.auth import AuthMiddlewareStack
from channels.security.websocket import AllowedHostsOriginValidator

AUTHORIZATION = b"authorization"


def from_browsers(application):
    """An ASGI application for the browsers of signed-in people: with their session, and 403 for another site's page."""
    return AllowedHostsOriginValidator(AuthMiddlewareStack(application))


class FromAnywhere:
    """The same, and for programs. A connection with an Authorization header is one of theirs: no page can send that."""

    def __init__(self, application) -> None:
        self.programs, self.browsers = application, from_browsers(application)

    async def __call__(self, scope: dict, receive, send) -> None:
        await (self.programs if authorization_of(scope) is not None else self.browsers)(scope, receive, send)


def authorization_of(scope: dict) -> bytes | None:
    """The header's value; None without one."""
    return dict(scope["headers"]).get(AUTHORIZATION)
