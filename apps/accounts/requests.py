"""Types of requests by somebody who is signed in, for views that admit nobody else.

They are types only: Django and Django REST framework make the objects. A view takes one of them
behind a login or permission check, and can pass `request.user` on as a User. A view that anyone
may open asks `is_signed_in` first.
"""

from typing import TypeGuard

from django.http import HttpRequest
from rest_framework.request import Request

from apps.accounts.models import Token, User


class SignedInRequest(HttpRequest):
    """Request of a page that requires a login."""

    user: User


class ApiRequest(Request):
    """REST request of a person, or with a valid token in `auth`."""

    user: User
    auth: Token | None


def find_token(request: Request) -> Token | None:
    """Return the token of a REST request; None for a person's."""
    token: object = request.auth
    assert token is None or isinstance(token, Token)
    return token


def is_signed_in(request: HttpRequest) -> TypeGuard[SignedInRequest]:
    """Tell whether somebody sent the request; false also before the middleware that finds out."""
    user = getattr(request, "user", None)
    return user is not None and user.is_authenticated
