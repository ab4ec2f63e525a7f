"""Sign-in by OpenID Connect, if the installation names a provider (RFTWEB_OIDC_ISSUER).

A person is identified only by the provider's subject. An account is never found by its name or
e-mail address, which a provider may not have verified. A new account belongs to no project until
somebody invites it, unless RFTWEB_OIDC_ROLE gives a role.
"""

from typing import Any

import requests
import structlog
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import AuditEntry, Membership, Project, User

PROVIDER = "oidc"  # as in the callback's address
log = structlog.get_logger(__name__)


class OidcAdapter(DefaultSocialAccountAdapter):
    """An allauth adapter that creates accounts without unverified e-mail addresses."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Keep only a verified address, and no rows of addresses.

        Allauth would match accounts by such rows.
        """
        verified = [
            address.email for address in sociallogin.email_addresses if address.verified is True
        ]
        sociallogin.email_addresses = []
        if not sociallogin.is_existing:
            sociallogin.user.email = verified[0] if verified else ""

    @transaction.atomic
    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        """Create the account, with the default role if there is one; write the audit log."""
        user = super().save_user(request, sociallogin, form)
        AuditEntry.record("account created", f"user {user}", user, provider=settings.OIDC_NAME)
        slug, _, role = settings.OIDC_ROLE.partition(":")
        project = Project.objects.current().filter(slug=slug).first() if slug else None
        if project is not None:
            Membership(project=project, user=user, role=role).give(None)
        elif slug:
            log.warning("oidc_project_missing", project=slug, user=user.username)
        return user

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: dict | None = None,
    ) -> None:
        """Redirect to the login page, which says what happened."""
        log.warning("oidc_sign_in_failed", error=str(error), exception=str(exception or ""))
        is_cancelled = error == AuthError.CANCELLED
        raise ImmediateHttpResponse(_refuse(request, "was cancelled" if is_cancelled else ""))


class VerifyingAdapter(OpenIDConnectOAuth2Adapter):
    """allauth's client, which also checks the ID token's signature and the subject of user info."""

    def complete_login(
        self, request: HttpRequest, app: Any, token: Any, **options: Any
    ) -> SocialLogin:
        """Return the login that the provider's answer describes. Raise OAuth2Error."""
        answer = options["response"]
        if not answer.get("id_token"):
            raise OAuth2Error("the provider sent no ID token")
        identity = self._decode_id_token(app, answer["id_token"])
        about = self._fetch_user_info(token.token)
        if about.get("sub") != identity.get("sub"):
            raise OAuth2Error("the user info is about another subject than the ID token")
        data = {"userinfo": about, "id_token": identity}
        return self.get_provider().sociallogin_from_response(request, data)

    def _decode_id_token(self, app: Any, id_token: str) -> dict:
        return jwtkit.verify_and_decode(
            credential=id_token,
            keys_url=self.openid_config["jwks_uri"],
            issuer=self.openid_config["issuer"],
            audience=app.client_id,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )


@require_POST
@never_cache
def login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Everybody: go to the provider to sign in; `next` is where to go afterwards."""
    return _with_provider(request, provider_id, OAuth2LoginView)


@require_safe
@never_cache
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Everybody who comes back from the provider; its answer is checked."""
    return _with_provider(request, provider_id, OAuth2CallbackView)


def _with_provider(request: HttpRequest, provider_id: str, view: Any) -> HttpResponse:
    if provider_id != PROVIDER or not settings.OIDC_ISSUER:
        raise Http404("no OpenID Connect provider is set up")
    try:
        return view.adapter_view(VerifyingAdapter(request, PROVIDER))(request)
    except (requests.RequestException, OAuth2Error, LookupError, TypeError, ValueError) as error:
        # The provider is unavailable, or its answer is not OpenID Connect.
        log.warning("oidc_provider_failed", error=f"{type(error).__name__}: {error}")
        return _refuse(request, "")


def _refuse(request: HttpRequest, what: str) -> HttpResponse:
    message = what or "did not work. Try again, or ask your administrator to look at the log"
    messages.error(request, f"Signing in with {settings.OIDC_NAME} {message}.")
    return redirect("account_login")


def offered(request: HttpRequest) -> dict:
    """Return the template context: the provider's name, "" where none is set up."""
    return {"oidc_name": settings.OIDC_NAME if settings.OIDC_ISSUER else "", "oidc": PROVIDER}
