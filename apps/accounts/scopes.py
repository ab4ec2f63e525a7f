"""Permissions of API tokens: views require a scope for each kind of action."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.models import Token


class HasScope(BasePermission):
    """A permission that limits a token to its scopes; people in browsers are not limited by it."""

    scope: str

    def has_permission(self, request: Request, view: object) -> bool:
        if not request.user.is_authenticated:
            return False
        self.message = f"This token lacks the scope `{self.scope}`."
        token = request.auth
        return token is None or (isinstance(token, Token) and self.scope in token.scopes)


class MayRead(HasScope):
    scope = Token.Scope.READ


class MayRate(HasScope):
    scope = Token.Scope.RATE


class MaySteer(HasScope):
    scope = Token.Scope.STEER
