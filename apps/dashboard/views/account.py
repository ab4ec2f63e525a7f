"""One's own settings: who one is, and the tokens one's programs carry."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import Token
from apps.accounts.rating_keys import ACTIONS, BadKeys, keys_of, parse

MOST_TOKENS = 50


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, label="Name", help_text="What carries it, so that you know it again.")
    scopes = forms.MultipleChoiceField(choices=Token.Scope.choices, widget=forms.CheckboxSelectMultiple, label="It may")


def _keys(keys: dict[str, str], problems: dict[str, str]) -> list[dict]:
    """The rating page's actions with the key of each, and what is wrong with it."""
    return [{"action": action, "key": keys.get(action.name, ""), "wrong": problems.get(action.name)} for action in ACTIONS]


def _page(
    request: HttpRequest, form: TokenForm, secret: str = "", status: int = 200, keys: list[dict] | None = None
) -> HttpResponse:
    context = {
        "section": "settings", "form": form, "secret": secret, "keys": keys or _keys(keys_of(request.user.rating_keys), {}),
        "tokens": request.user.tokens.order_by("-pk")[:MOST_TOKENS],
        "memberships": request.user.memberships.select_related("project"),
    }  # fmt: skip
    return render(request, "dashboard/settings.html", context, status=status)


@require_safe
@login_required
def settings_page(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: their own."""
    return _page(request, TokenForm(initial={"scopes": [Token.Scope.READ]}))


@require_POST
@login_required
@never_cache
def issue_token(request: HttpRequest) -> HttpResponse:
    """Everybody signed in. The answer holds the secret; nothing shows it again."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    _, secret = Token.issue(request.user, form.cleaned_data["name"], form.cleaned_data["scopes"])
    return _page(request, TokenForm(), secret)


@require_POST
@login_required
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """The token's owner."""
    token = get_object_or_404(request.user.tokens, pk=pk)
    token.revoke()
    messages.success(request, f"{token.name} is revoked; whatever carries it is refused from now on.")
    return redirect("settings")


@require_POST
@login_required
def rating_keys(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: their own keys of the rating page; `defaults` puts all back."""
    asked = {} if "defaults" in request.POST else {a.name: request.POST.get(a.name, a.key) for a in ACTIONS}
    try:
        request.user.rating_keys = parse(asked)
    except BadKeys as error:
        form = TokenForm(initial={"scopes": [Token.Scope.READ]})
        return _page(request, form, status=422, keys=_keys(asked, error.problems))
    request.user.save(update_fields=["rating_keys"])
    messages.success(request, "Your keys are kept; the rating page goes by them from now on.")
    return redirect("settings")
