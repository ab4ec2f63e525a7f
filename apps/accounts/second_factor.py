"""Require a second factor from administrators, where the installation is configured so."""

from collections.abc import Callable

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

OPEN_PREFIXES = ("/accounts/", "/static/")
SET_UP = "mfa_activate_totp"
EXPLANATION = "Administrators must use two-factor authentication. Set it up to continue."


class StaffSecondFactor:
    """Send staff without a second factor to the page that sets one up.

    Applies to staff and superusers who are signed in, when `REQUIRE_MFA_FOR_STAFF` is on. REST
    requests with a session get 403. Tokens are refused in `apps.accounts.authentication`, and web
    sockets, which no middleware sees, in `apps.streaming.sockets`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if self._may_pass(request):
            return self.get_response(request)
        if request.path.startswith("/api/") or request.headers.get("HX-Request"):
            return JsonResponse({"detail": EXPLANATION}, status=403)
        messages.warning(request, EXPLANATION)
        return redirect(SET_UP)

    def _may_pass(self, request: HttpRequest) -> bool:
        if not settings.REQUIRE_MFA_FOR_STAFF or request.path.startswith(OPEN_PREFIXES):
            return True
        return not must_set_up_second_factor(request.user)


def must_set_up_second_factor(user: AbstractUser | AnonymousUser) -> bool:
    """Tell whether this person must set up a second factor before they can do anything else."""
    if not settings.REQUIRE_MFA_FOR_STAFF:
        return False
    if not (user.is_authenticated and (user.is_staff or user.is_superuser)):
        return False
    return not is_mfa_enabled(user)
