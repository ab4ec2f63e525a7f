"""OpenEnv over HTTP: descriptions of an environment, and single moves.

Only WebSockets have sessions (`socket`); HTTP requests keep no state. A reset begins an episode and
abandons it; a step is the first of its own episode, as on the package's servers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, ParseError
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.async_response import (
    Application,
    Receive,
    Send,
    answer_later,
    send_json,
    unless_gone,
)
from apps.accounts.authentication import SCHEME
from apps.accounts.models import Token, User
from apps.accounts.parsing import TooLarge
from apps.accounts.requests import find_token
from apps.environments.closing import rests
from apps.environments.openenv import calls, wire
from apps.environments.openenv.access import NO_TOKEN, OpenEnvClient, admitted, presented
from apps.environments.openenv.document import describe_openenv
from apps.environments.openenv.refusing import handle_openenv_error

HEALTHY = {"status": "healthy"}
UNHEALTHY = {"status": "unhealthy"}
RETRY_AFTER = {429: "1", 503: "5"}


class PlayKey(BaseAuthentication):
    """Authentication by a token as bearer or password.

    A request without the header is anonymous.
    """

    def authenticate(self, request: Request) -> tuple[User, Token] | None:
        """Return the user and the token. Raises AuthenticationFailed."""
        header = get_authorization_header(request)
        if not header:
            return None
        token = presented(header)
        if token is None:
            raise AuthenticationFailed(NO_TOKEN)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


@extend_schema(exclude=True)
class OpenEnvView(APIView):
    """The base of views for an outside client; errors have OpenEnv's form."""

    authentication_classes = (PlayKey,)

    def get_exception_handler(self) -> Callable[[Exception, dict], Response]:
        return handle_openenv_error

    def guest(self, request: Request) -> OpenEnvClient:
        """Return the client of this request. Raises Refused."""
        token = find_token(request)
        assert token is not None  # the permission refuses anonymous requests
        return admitted(token, self.kwargs.get("project"), self.kwargs["name"])


class Health(OpenEnvView):
    """Health of this server for anonymous requests, of the environment for clients with a token."""

    permission_classes = (AllowAny,)

    def get(self, request: Request, **_: str) -> Response:
        return Response(
            UNHEALTHY if request.auth and rests(self.guest(request).environment) else HEALTHY
        )


class Metadata(OpenEnvView):
    def get(self, request: Request, **_: str) -> Response:
        return Response(wire.describe_metadata(self.guest(request).environment))


class Schema(OpenEnvView):
    def get(self, request: Request, **_: str) -> Response:
        return Response(wire.describe_schemas(self.guest(request).environment))


class Document(OpenEnvView):
    def get(self, request: Request, **_: str) -> Response:
        address = request.build_absolute_uri(request.path.removesuffix("/openapi.json"))
        return Response(describe_openenv(self.guest(request).environment, address))


class State(OpenEnvView):
    def get(self, request: Request, **_: str) -> Response:
        """Return the state without an episode: nothing is kept between two requests."""
        limit = self.guest(request).environment.turn_limit
        return Response(wire.state(seed=None, turn_limit=limit, episode=None, done=False))


class Reset(OpenEnvView):
    def post(self, request: Request, **_: str) -> Response:
        return _answer(request, calls.reset(self.guest(request), _object(request.data)))


class Step(OpenEnvView):
    def post(self, request: Request, **_: str) -> Response:
        guest = self.guest(request)
        body = _object(request.data)
        action = body.get("action")
        if not isinstance(action, dict):
            return Response(
                {
                    "detail": [
                        {"type": "missing", "loc": ["body", "action"], "msg": "must be an object"}
                    ]
                },
                422,
            )
        return _answer(request, calls.step(guest, action))


class Mcp(OpenEnvView):
    def post(self, request: Request, **_: str) -> Response:
        guest = self.guest(request)
        try:
            body = request._request.body
        except RequestDataTooBig:
            raise TooLarge from None
        return _answer(request, calls.answer_rpc_call(guest, body))


class Nowhere(OpenEnvView):
    permission_classes = (AllowAny,)

    def get(self, request: Request, **_: str) -> Response:
        raise Http404

    post = put = patch = delete = get


def _object(body: Any) -> dict:
    if not isinstance(body, dict):
        raise ParseError("The body must be a JSON object.")
    return body


def _answer(request: Request, work: Coroutine[Any, Any, calls.Answer]) -> Response:
    """Return the result of the work, awaited in the event loop if there is one.

    An environment may take long.
    """
    if answer_later(request._request, _as_application(work)):
        return Response(status=202)  # a placeholder: the event loop sends the answer
    status, document = asyncio.run(work)
    return Response(document, status, headers=_headers(status))


def _as_application(work: Awaitable[calls.Answer]) -> Application:
    async def application(_scope: dict[str, Any], receive: Receive, send: Send) -> None:
        answer = await unless_gone(work, receive)
        if answer is not None:
            await send_json(send, answer[0], answer[1], **_headers(answer[0]))

    return application


def _headers(status: int) -> dict[str, str]:
    return {"retry-after": RETRY_AFTER[status]} if status in RETRY_AFTER else {}
