"""What a token may do, asked by the views: a scope for each kind of act."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.models import Token


class HasScope(BasePermission):
    """A token may do only what it was issued for; a person in a browser may do what the person may."""

    scope: str

    def has_permission(self, request: Request, view: object) -> bool:
        if not request.user.is_authenticated:
            return False
        self.message = f"This token lacks the scope `{self.scope}`."
        return request.auth is None or self.scope in request.auth.scopes


class MayRead(HasScope):
    scope = Token.Scope.READ


class MayRate(HasScope):
    scope = Token.Scope.RATE


class MaySteer(HasScope):
    scope = Token.Scope.STEER
