"""Authentication of programs by bearer token: `Authorization: Bearer rft_usr_…`.

A token in the URL is never accepted.
"""

from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.models import TOKEN_PREFIX, Token, User
from apps.accounts.second_factor import must_set_up_second_factor

SCHEME = "Bearer"
MAX_SECRET_LENGTH = 200
USE_NOTED_EVERY = timedelta(minutes=1)
NO_SECOND_FACTOR = "The owner of this token must set up two-factor authentication first."


class BearerToken(BaseAuthentication):
    """Authentication that looks the token up by its digest.

    A request without the header is left to the next authentication class.
    """

    def authenticate(self, request: Request) -> tuple[User, Token] | None:
        """Return the token's user and the token, or None without the header.

        Raises AuthenticationFailed for a header that names no valid token.
        """
        token = token_in(get_authorization_header(request))
        return (token.user, token) if token else None

    def authenticate_header(self, request: HttpRequest) -> str:
        return SCHEME


def token_in(header: bytes) -> Token | None:
    """Return the valid token named by an Authorization header.

    Returns None if the header is empty or of another scheme; raises AuthenticationFailed if it
    names no valid token.
    """
    parts = header.split()
    if not parts or parts[0].lower() != SCHEME.lower().encode():
        return None
    token = find_token(parts[1]) if len(parts) == 2 else None
    if token is None:
        raise AuthenticationFailed("This token is unknown, expired or revoked.")
    note_use(token)
    return token


def find_token(secret: bytes) -> Token | None:
    """Return the valid token with this secret, or None.

    Every way to present a token ends here. Raises AuthenticationFailed if the token's owner must
    set up a second factor first.
    """
    if len(secret) > MAX_SECRET_LENGTH or not secret.startswith(TOKEN_PREFIX.encode()):
        return None
    token = Token.objects.presented(secret.decode("latin-1"))
    if token is not None and must_set_up_second_factor(token.user):
        raise AuthenticationFailed(NO_SECOND_FACTOR)
    return token


def note_use(token: Token) -> None:
    """Record when the token was used, to the minute: at most one write a minute."""
    if (
        token.last_used_at is not None
        and timedelta(0) <= timezone.now() - token.last_used_at < USE_NOTED_EVERY
    ):
        return
    unused = Q(last_used_at=None) | Q(last_used_at__lt=Now() - USE_NOTED_EVERY)
    Token.objects.filter(unused, pk=token.pk).update(last_used_at=Now())
