"""The first page after signing in."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.home import load_home


@require_safe
@login_required
def home(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: what waits for them, and the runs at work. Raters go to Rate."""
    if request.user.only_rates():
        return redirect("rate")
    context = {"section": "home", "home": load_home(request.user)}
    return render(request, "dashboard/home.html", context)


@require_safe
@login_required
def home_now(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: what waits for them, and the runs at work, again."""
    return render(request, "dashboard/_home_now.html", {"home": load_home(request.user)})
