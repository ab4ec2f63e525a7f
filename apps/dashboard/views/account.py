"""The user's own settings: account, API tokens, and keyboard shortcuts of the rating page."""

from datetime import timedelta
from typing import Any

from allauth.core import ratelimit
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import TOKEN_LIFETIME, Project, Token, User
from apps.accounts.rating_keys import ACTIONS, BadKeys, keys_by_action, parse_rating_keys
from apps.accounts.requests import SignedInRequest
from apps.dashboard.form_actions import posted_flag
from apps.dashboard.form_fields import choice_field
from apps.environments.models import Environment
from apps.runs.models import Run

MAX_TOKENS = 50
MAX_LISTED_NAMES = 25


class TokenForm(forms.Form):
    """A new token.

    The choices depend on `user`: scopes that name an environment or a run are offered to those who
    may steer it.
    """

    DAYS = ((7, "a week"), (30, "30 days"), (90, "90 days"), (365, "a year"))
    name = forms.CharField(
        max_length=100, label="Name", help_text="The program that uses the token."
    )
    scopes = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="Permissions")
    days = forms.TypedChoiceField(
        choices=DAYS,
        coerce=int,
        initial=TOKEN_LIFETIME.days,
        empty_value=TOKEN_LIFETIME.days,  # type: ignore[arg-type] # the stub knows texts only
        required=False,
        label="Expires after",
    )

    def __init__(self, user: User, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        choice_field(self, "scopes").choices = list_scope_choices(user)


class EmailForm(forms.Form):
    """The e-mail address of the account; the password shows that it is the owner who changes it."""

    email = forms.EmailField(required=False, max_length=254, label="E-mail address")
    password = forms.CharField(
        strip=False,
        label="Current password",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, user: User, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.user = user

    def clean_password(self) -> str:
        """Refuse a password that is not the account's."""
        password = self.cleaned_data["password"]
        if not self.user.check_password(password):
            raise forms.ValidationError("This is not your password.")
        return password


def list_scope_choices(user: User) -> list:
    """Return the scopes that the user may give a token, as choices of a form.

    General scopes come first, then those that name an object.
    """
    projects = Project.objects.run_by(user)
    environment_names = (
        Environment.objects.filter(project__in=projects)
        .order_by("name")
        .values_list("name", flat=True)
        .distinct()
    )
    push_choices = [
        (f"env:write:{name}", name)
        for name in environment_names.filter(kind=Environment.Kind.PUSH)[:MAX_LISTED_NAMES]
    ]
    play_choices = [
        (f"env:play:{name}", name)
        for name in environment_names.exclude(kind__in=["agent", "verifiers"])[:MAX_LISTED_NAMES]
    ]
    runs = (
        Run.objects.steered_by(user)
        .exclude(state__in=Run.ENDED)
        .order_by("-pk")
        .values_list("pk", "slug")[:MAX_LISTED_NAMES]
    )
    groups = [("Runs and data of all your projects", Token.Scope.choices)]
    if projects.exists():
        groups.append(
            (
                "Register environments and answer for them",
                [("env:write:*", "all, including new ones"), *push_choices],
            )
        )
        groups.append(
            (
                "Act in environments in place of the policy",
                [("env:play:*", "all, including new ones"), *play_choices],
            )
        )
    if runs:
        groups.append(
            (
                "Call the policy of a run as a chat model",
                [(f"agent:{pk}", slug) for pk, slug in runs],
            )
        )
    return groups


def _keys(keys: dict[str, str], problems: dict[str, str]) -> list[dict]:
    """Return the rating page's actions with their keys and errors."""
    return [
        {"action": action, "key": keys.get(action.name, ""), "wrong": problems.get(action.name)}
        for action in ACTIONS
    ]


def _page(
    request: SignedInRequest,
    form: TokenForm,
    secret: str = "",
    status: int = 200,
    keys: list[dict] | None = None,
    email: EmailForm | None = None,
) -> HttpResponse:
    context = {
        "section": "settings",
        "form": form,
        "secret": secret,
        "email": email or EmailForm(request.user, initial={"email": request.user.email}),
        "has_mail_server": bool(settings.EMAIL_HOST),
        "keys": keys or _keys(keys_by_action(request.user.rating_keys), {}),
        "tokens": request.user.tokens.order_by("-pk")[:MAX_TOKENS],
        "now": timezone.now(),
        "memberships": request.user.memberships.select_related("project"),
    }
    return render(request, "dashboard/settings.html", context, status=status)


@require_safe
@login_required
def settings_page(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: their own settings."""
    suggested_scope = request.GET.get("scope")  # the scope that the linking page suggests
    return _page(
        request, TokenForm(request.user, initial={"scopes": [suggested_scope or Token.Scope.READ]})
    )


@require_POST
@login_required
@never_cache
def issue_token(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in. The answer holds the secret; nothing shows it again."""
    form = TokenForm(request.user, request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    data = form.cleaned_data
    _, secret = Token.issue(
        request.user, data["name"], data["scopes"], timedelta(days=data["days"]), request.user
    )
    return _page(request, TokenForm(request.user), secret)


@require_POST
@login_required
def revoke_token(request: SignedInRequest, pk: int) -> HttpResponse:
    """The owner of a token: revoke it."""
    token = get_object_or_404(request.user.tokens, pk=pk)
    token.revoke(request.user)
    messages.success(request, f"{token.name} revoked. Requests with this token are rejected.")
    return redirect("settings")


@require_POST
@login_required
@sensitive_post_parameters("password")
def email(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the e-mail address to which password reset links are sent."""
    if refusal := ratelimit.consume_or_429(request, action="change_password", user=request.user):
        return refusal
    form = EmailForm(request.user, request.POST)
    if not form.is_valid():
        tokens = TokenForm(request.user, initial={"scopes": [Token.Scope.READ]})
        return _page(request, tokens, status=422, email=form)
    request.user.email = form.cleaned_data["email"]
    request.user.save(update_fields=["email"])
    messages.success(request, "E-mail address saved.")
    return redirect("settings")


@require_POST
@login_required
def rating_keys(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: their own keys of the rating page; `defaults` puts all back."""
    chosen = {action.name: request.POST.get(action.name, action.key) for action in ACTIONS}
    requested = {} if posted_flag(request, "defaults") else chosen
    try:
        request.user.rating_keys = parse_rating_keys(requested)
    except BadKeys as error:
        form = TokenForm(request.user, initial={"scopes": [Token.Scope.READ]})
        return _page(request, form, status=422, keys=_keys(requested, error.problems))
    request.user.save(update_fields=["rating_keys"])
    messages.success(request, "Keyboard shortcuts saved.")
    return redirect("settings")
