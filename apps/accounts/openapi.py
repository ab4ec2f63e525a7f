"""Parts of the OpenAPI document: authentication by our tokens, and problem responses."""

from functools import cache
from typing import Literal

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from apps.accounts.models import TOKEN_PREFIX
from apps.accounts.problems import MEDIA_TYPE, Problem

ALWAYS = (401, 403, 404, 422, 429, 503)
OF_A_CHANGE = (409,)
WITH_A_BODY = (400, 413, 415)


def _problem_statuses(method: str) -> list[int]:
    """Return the statuses of problems that an operation with this HTTP method can answer."""
    changes = OF_A_CHANGE if method != "GET" else ()
    has_body = WITH_A_BODY if method in ("POST", "PATCH", "PUT") else ()
    return sorted({*ALWAYS, *changes, *has_body})


class Schema(AutoSchema):
    """An operation's schema that includes the problem responses it can give."""

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict:
        responses = super()._get_response_bodies(direction)
        for status in _problem_statuses(self.method):
            responses.setdefault(
                str(status),
                self._get_response_for_code(Problem, str(status), [MEDIA_TYPE], direction),
            )
        return responses


class KeptSchema(SchemaGenerator):
    """A schema generator that runs once per process: it takes seconds, and the result is fixed."""

    def get_schema(self, request: object = None, public: bool = False) -> dict:
        return _public_schema()


@cache
def _public_schema() -> dict:
    return SchemaGenerator().get_schema(request=None, public=True)


class BearerTokenScheme(OpenApiAuthenticationExtension):
    target_class = "apps.accounts.authentication.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict:
        description = f"Your API token (`{TOKEN_PREFIX}…`). Create one under Settings."
        return {"type": "http", "scheme": "bearer", "description": description}
