"""Requests of somebody who is signed in, for views that let nobody else in.

They are types only: Django and Django REST framework make the objects. A view takes one of them
behind a login or permission check, and can pass `request.user` on as a User. A view that anyone
may open asks `is_signed_in` first.
"""

from typing import TypeGuard

from django.http import HttpRequest
from rest_framework.request import Request

from apps.accounts.models import User


class SignedInRequest(HttpRequest):
    """A request of a page that asks for a login."""

    user: User


class ApiRequest(Request):
    """A REST request that carries a valid token."""

    user: User


def is_signed_in(request: HttpRequest) -> TypeGuard[SignedInRequest]:
    """Tell whether somebody sent the request; false also before the middleware that finds out."""
    user = getattr(request, "user", None)
    return user is not None and user.is_authenticated
