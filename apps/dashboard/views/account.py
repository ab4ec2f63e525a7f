"""One's own settings: who one is, and the tokens one's programs carry."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import Token

MOST_TOKENS = 50


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, label="Name", help_text="What carries it, so that you know it again.")
    scopes = forms.MultipleChoiceField(choices=Token.Scope.choices, widget=forms.CheckboxSelectMultiple, label="It may")


def _page(request: HttpRequest, form: TokenForm, secret: str = "", status: int = 200) -> HttpResponse:
    context = {
        "section": "settings", "form": form, "secret": secret,
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
