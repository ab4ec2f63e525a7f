"""Password reset links: by e-mail, or created by somebody who manages the account."""

from allauth.account import views
from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import register_converter, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.accounts.models import AuditEntry, Membership, Project, User


class Base36:
    """A URL converter for numbers in base 36, as allauth writes the keys of users."""

    regex = "[0-9A-Za-z]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(Base36, "base36")


def resettable(by: User, users: QuerySet[User]) -> QuerySet[User]:
    """Return those of `users` for whom `by` may create a password reset link.

    Administrators may create one for everybody else with an account. An owner may create one for
    members of the owner's projects who are neither administrators nor members of other projects.
    """
    accounts = users.filter(is_active=True, is_simulated=False, imported_into=None)
    other_accounts = accounts.exclude(pk=by.pk)
    if by.is_superuser:
        return other_accounts
    owned = Project.objects.owned_by(by).values("pk")
    memberships = Membership.objects.filter(user=OuterRef("pk"))
    return other_accounts.filter(
        Exists(memberships),
        ~Exists(memberships.exclude(project__in=owned)),
        is_superuser=False,
        is_staff=False,
    )


@transaction.atomic
def create_link(by: User, user: User, project: Project) -> str:
    """Return the path of a link that lets `user` choose a new password; write the audit log.

    It works once, for `PASSWORD_RESET_TIMEOUT` seconds, and not after the user signs in.
    Raises PermissionDenied.
    """
    if not resettable(by, User.objects.filter(pk=user.pk)).exists():
        raise PermissionDenied("You may not reset this person’s password.")
    AuditEntry.record("password reset link created", f"user {user}", by, project)
    key = default_token_generator.make_token(user)
    return reverse(
        "account_reset_password_from_key", kwargs={"uidb36": user_pk_to_url_str(user), "key": key}
    )


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def request_password_reset(request: HttpRequest) -> HttpResponse:
    """Everybody: ask for a reset link by e-mail, where a mail server is configured."""
    if settings.EMAIL_HOST:
        return views.password_reset(request)
    return render(request, "account/password_reset_without_mail.html")
