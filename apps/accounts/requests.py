"""Types of requests by somebody who is signed in, for views that admit nobody else.

They are types only: Django and Django REST framework create the objects. A view takes one of them
behind a login or permission check, and can pass `request.user` on as a User.
"""

from django.http import HttpRequest
from rest_framework.request import Request

from apps.accounts.models import User


class SignedInRequest(HttpRequest):
    """Request of a page that requires a login."""

    user: User


class ApiRequest(Request):
    """REST request with a valid token."""

    user: User
