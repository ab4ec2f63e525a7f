"""Authentication of web sockets: browsers from our own origin, and programs with a token."""

from channels.auth import AuthMiddlewareStack
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

AUTHORIZATION = b"authorization"
DEFAULT_PORTS = {"http": "80", "https": "443"}


def from_browsers(application):
    """Wrap an ASGI application with sessions, and answer pages of other origins with 403."""
    return SameOrigin(AuthMiddlewareStack(application))


class SameOrigin:
    """ASGI middleware that refuses sockets opened by pages of other origins.

    Host and port must equal the request's `Host`, or an origin in CSRF_TRUSTED_ORIGINS; the scheme
    is not compared. The host name alone would let in a page on another port of this machine.
    """

    def __init__(self, application) -> None:
        self.application = application

    async def __call__(self, scope: dict, receive, send) -> None:
        application = self.application if _is_same_origin(scope) else WebsocketDenier()
        await application(scope, receive, send)


def _is_same_origin(scope: dict) -> bool:
    headers = dict(scope["headers"])
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    scheme, _, its_host = origin.lower().partition("://")
    our_host = headers.get(b"host", b"").decode("latin-1").lower()
    domain, _ = split_domain_port(our_host)
    if scheme not in DEFAULT_PORTS or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    return _with_port(its_host, scheme) == _with_port(our_host, scheme)


def _with_port(host: str, scheme: str) -> tuple[str, str]:
    """Return (domain, port) of a host, with the scheme's port where none is given."""
    domain, port = split_domain_port(host)
    return domain, port or DEFAULT_PORTS[scheme]


class FromAnywhere:
    """SameOrigin that is also open to programs with an Authorization header.

    No page of a browser can send that header on a web socket.
    """

    def __init__(self, application) -> None:
        self.programs, self.browsers = application, from_browsers(application)

    async def __call__(self, scope: dict, receive, send) -> None:
        await (self.programs if read_authorization(scope) is not None else self.browsers)(
            scope, receive, send
        )


def read_authorization(scope: dict) -> bytes | None:
    """Return the value of the Authorization header, or None."""
    return dict(scope["headers"]).get(AUTHORIZATION)
