"""One's own settings: who one is, and the tokens one's programs carry."""

from datetime import timedelta

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import TOKEN_LIFETIME, Project, Token, User
from apps.accounts.rating_keys import ACTIONS, BadKeys, keys_of, parse
from apps.dashboard.form_actions import posted_flag
from apps.environments.models import Environment
from apps.runs.models import Run

MOST_TOKENS, MOST_NAMED = 50, 25


class TokenForm(forms.Form):
    """`user` decides what there is to choose: what names an environment or a run is offered to those who may steer it."""

    DAYS = ((7, "a week"), (30, "30 days"), (90, "90 days"), (365, "a year"))
    name = forms.CharField(max_length=100, label="Name", help_text="What carries it, so that you know it again.")
    scopes = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="It may")
    days = forms.TypedChoiceField(
        choices=DAYS, coerce=int, initial=TOKEN_LIFETIME.days, empty_value=TOKEN_LIFETIME.days, required=False, label="Good for"
    )

    def __init__(self, user: User, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.fields["scopes"].choices = scopes_of(user)


def scopes_of(user: User) -> list:
    """What a token of this person may be allowed, as the choices of a form: those of everybody, then those that name something."""
    projects = Project.objects.run_by(user)
    theirs = Environment.objects.filter(project__in=projects).order_by("name").values_list("name", flat=True).distinct()
    played = [(f"env:write:{name}", name) for name in theirs.filter(kind=Environment.Kind.PUSH)[:MOST_NAMED]]
    acted_in = [(f"env:play:{name}", name) for name in theirs.exclude(kind__in=["agent", "verifiers"])[:MOST_NAMED]]
    runs = Run.objects.steered_by(user).exclude(state__in=Run.ENDED).order_by("-pk").values_list("pk", "slug")[:MOST_NAMED]
    groups = [("Of everything that is yours to see", Token.Scope.choices)]
    if projects.exists():
        groups.append(("Register environments, and play their side", [("env:write:*", "all of them, and new ones"), *played]))
        groups.append(("Act in environments, in the policy’s seat", [("env:play:*", "all of them, and new ones"), *acted_in]))
    if runs:
        groups.append(("Call the policy of a run as a chat model", [(f"agent:{pk}", slug) for pk, slug in runs]))
    return groups


def _keys(keys: dict[str, str], problems: dict[str, str]) -> list[dict]:
    """The rating page's actions with the key of each, and what is wrong with it."""
    return [{"action": action, "key": keys.get(action.name, ""), "wrong": problems.get(action.name)} for action in ACTIONS]


def _page(
    request: HttpRequest, form: TokenForm, secret: str = "", status: int = 200, keys: list[dict] | None = None
) -> HttpResponse:
    context = {
        "section": "settings", "form": form, "secret": secret, "keys": keys or _keys(keys_of(request.user.rating_keys), {}),
        "tokens": request.user.tokens.order_by("-pk")[:MOST_TOKENS],
        "now": timezone.now(), "memberships": request.user.memberships.select_related("project"),
    }  # fmt: skip
    return render(request, "dashboard/settings.html", context, status=status)


@require_safe
@login_required
def settings_page(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: their own."""
    asked = request.GET.get("scope")  # what another page says that its reader's program needs
    return _page(request, TokenForm(request.user, initial={"scopes": [asked or Token.Scope.READ]}))


@require_POST
@login_required
@never_cache
def issue_token(request: HttpRequest) -> HttpResponse:
    """Everybody signed in. The answer holds the secret; nothing shows it again."""
    form = TokenForm(request.user, request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    wanted = form.cleaned_data
    _, secret = Token.issue(request.user, wanted["name"], wanted["scopes"], timedelta(days=wanted["days"]), request.user)
    return _page(request, TokenForm(request.user), secret)


@require_POST
@login_required
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """The token's owner."""
    token = get_object_or_404(request.user.tokens, pk=pk)
    token.revoke(request.user)
    messages.success(request, f"{token.name} is revoked; whatever carries it is refused from now on.")
    return redirect("settings")


@require_POST
@login_required
def rating_keys(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: their own keys of the rating page; `defaults` puts all back."""
    chosen = {action.name: request.POST.get(action.name, action.key) for action in ACTIONS}
    asked = {} if posted_flag(request, "defaults") else chosen
    try:
        request.user.rating_keys = parse(asked)
    except BadKeys as error:
        form = TokenForm(request.user, initial={"scopes": [Token.Scope.READ]})
        return _page(request, form, status=422, keys=_keys(asked, error.problems))
    request.user.save(update_fields=["rating_keys"])
    messages.success(request, "Your keys are kept; the rating page goes by them from now on.")
    return redirect("settings")
