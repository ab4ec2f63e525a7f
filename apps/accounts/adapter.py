"""Signing in: accounts are made by administrators, and strangers' wrong passwords lock nobody out."""

import secrets

from allauth.account.adapter import DefaultAccountAdapter
from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from apps.accounts.models import User

KNOWN_BROWSER_COOKIE = "rftweb_known_browser"
KNOWN_BROWSER_SECONDS = 180 * 24 * 3600
SALT = "apps.accounts.adapter.known_browser"


class InviteOnlyAdapter(DefaultAccountAdapter):
    """Closes sign-up, and counts wrong passwords apart for browsers that have signed in before.

    Wrong passwords for an account are limited. Were there one limit for all, anybody who knows a
    user name could keep its owner out. So a browser that has signed in to the account carries a
    signed cookie and has a limit of its own; all other browsers share one (OWASP, "device cookies").
    """

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def post_login(self, request: HttpRequest, user: User, **options: object) -> HttpResponse:
        """Sign in and remember this browser as one of the user's own."""
        response = super().post_login(request, user, **options)
        known = {"login": user.get_username().lower(), "browser": secrets.token_urlsafe(12)}
        response.set_cookie(
            KNOWN_BROWSER_COOKIE,
            signing.dumps(known, salt=SALT),
            max_age=KNOWN_BROWSER_SECONDS,
            secure=settings.HTTPS,
            httponly=True,
            samesite="Lax",
        )
        return response

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: object) -> str:
        shared = super()._get_login_attempts_cache_key(request, **credentials)
        login = str(credentials.get("username", "")).lower()
        return f"{shared}:{_known_browser(request, login)}"


def _known_browser(request: HttpRequest, login: str) -> str:
    """Return the id of a browser that has signed in to this account before, else an empty string."""
    try:
        known = signing.loads(
            request.COOKIES.get(KNOWN_BROWSER_COOKIE, ""), salt=SALT, max_age=KNOWN_BROWSER_SECONDS
        )
    except signing.BadSignature:
        return ""
    return known["browser"] if known["login"] == login else ""
