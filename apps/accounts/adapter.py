"""Sign-in by invitation only, with limits on wrong passwords that cannot lock an owner out."""

import secrets
from concurrent.futures import ThreadPoolExecutor

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage
from django.http import HttpRequest, HttpResponse

from apps.accounts.models import User

KNOWN_BROWSER_COOKIE = "rftweb_known_browser"
KNOWN_BROWSER_SECONDS = 180 * 24 * 3600
log = structlog.get_logger(__name__)
_sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="account-mail")
SALT = "apps.accounts.adapter.known_browser"


class InviteOnlyAdapter(DefaultAccountAdapter):
    """An allauth adapter without sign-up that counts wrong passwords by kind of browser.

    Wrong passwords for an account are limited. With one limit for all, anybody who knows a user
    name could lock its owner out. So a browser that has signed in to the account carries a signed
    cookie and has a limit of its own; all other browsers share one (OWASP, "device cookies").
    """

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def post_login(self, request: HttpRequest, user: User, **options: object) -> HttpResponse:
        """Sign in and remember this browser as one of the user's own."""
        response = super().post_login(request, user, **options)
        payload = {"login": user.get_username().lower(), "browser": secrets.token_urlsafe(12)}
        response.set_cookie(
            KNOWN_BROWSER_COOKIE,
            signing.dumps(payload, salt=SALT),
            max_age=KNOWN_BROWSER_SECONDS,
            secure=settings.HTTPS,
            httponly=True,
            samesite="Lax",
        )
        return response

    def send_mail(self, template_prefix: str, email: str, context: dict) -> None:
        """Render an e-mail now and send it in the background.

        A request that waited for the mail server would tell which addresses have an account.
        """
        message = self.render_mail(template_prefix, email, {**context, "email": email})
        _sender.submit(_send, message)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: object) -> str:
        shared = super()._get_login_attempts_cache_key(request, **credentials)
        login = str(credentials.get("username", "")).lower()
        return f"{shared}:{_known_browser(request, login)}"


def _send(message: EmailMessage) -> None:
    try:
        message.send()
    except OSError as error:  # refused connections, time-outs, and every SMTP error
        log.error("account_mail_not_sent", subject=message.subject, error=str(error))


def _known_browser(request: HttpRequest, login: str) -> str:
    """Return the id of a browser that has signed in to this account before, else ""."""
    try:
        payload = signing.loads(
            request.COOKIES.get(KNOWN_BROWSER_COOKIE, ""), salt=SALT, max_age=KNOWN_BROWSER_SECONDS
        )
    except signing.BadSignature:
        return ""
    return payload["browser"] if payload["login"] == login else ""
