"""A REST client with its own token."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.http import HttpResponse
from django.test import Client

from apps.accounts.models import Token, User
from tests.web_process import served, web_of_file  # noqa: F401  (fixtures)

JSON = "application/json"


@dataclass
class Program:
    """A client for addresses below /api/v1/; an empty `secret` sends no token."""

    secret: str

    def get(self, path: str, **query: object) -> HttpResponse:
        return Client(raise_request_exception=False).get(
            f"/api/v1/{path}", query, headers=self.headers
        )

    def post(self, path: str, body: object = None) -> HttpResponse:
        return self.send(path, json.dumps({} if body is None else body).encode())

    def patch(self, path: str, body: object) -> HttpResponse:
        return self.send(path, json.dumps(body).encode(), verb="patch")

    def send(
        self, path: str, body: bytes, content_type: str = JSON, verb: str = "post", **headers: str
    ) -> HttpResponse:
        client = Client(raise_request_exception=False)
        return getattr(client, verb)(
            f"/api/v1/{path}", body, content_type=content_type, headers={**self.headers, **headers}
        )

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}


@pytest.fixture
def program() -> Callable[..., Program]:
    """Create a program of this user with these scopes (all if none is given)."""

    def make(user: User, *scopes: str) -> Program:
        return Program(Token.issue(user, "test", list(scopes or Token.Scope.values))[1])

    return make


@pytest.fixture
def stranger() -> Program:
    return Program("")
