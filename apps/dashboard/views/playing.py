"""A person plays an environment that calls us: takes an episode, says what the policy sees and what it earned, and ends it."""

from collections.abc import Callable
from contextlib import suppress

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST
from rest_framework.exceptions import PermissionDenied as NotTheirs

from apps.accounts import strict_json
from apps.dashboard.play_form import end_form, say_form
from apps.dashboard.views.episodes import context_of
from apps.environments.access import Asker, played_by, require_to_play
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment, Episode, any_text
from apps.environments.opening import take
from apps.environments.playing import locked
from apps.environments.telling import finish, say

TAKEN = "It is not free any more: somebody plays it, its run stands still, or as many episodes are played as may be at once."


@require_POST
@login_required
def take_episode(request: HttpRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: this episode, which nobody plays yet, is theirs."""
    visible = Episode.objects.visible_to(request.user).select_related("environment__project")
    found = get_object_or_404(visible, pk=pk, environment__kind=Environment.Kind.PUSH)
    try:
        require_to_play(Asker(request.user), found.environment)
    except NotTheirs as why:
        raise PermissionDenied(str(why)) from None
    if take(found.environment, request.user, episode_id=pk, by_hand=True) is None:
        messages.error(request, TAKEN)
    return redirect("episode", pk)


@require_POST
@login_required
def say_turn(request: HttpRequest, pk: int) -> HttpResponse:
    """Who plays the episode: the next observation, and what the last action earned."""
    found = _played(request, pk)
    form = say_form(found, request.POST)
    return _done(
        request, found, "say_form", form, lambda said: say(locked(pk), **{**said, "observation": _read(found, said)})
    )  # fmt: skip


def _read(found: Episode, said: dict) -> object:
    """Words, or what they read as where the environment registered what it says and that may be more than a text."""
    if found.environment.observation_schema == any_text():
        return said["observation"]
    with suppress(strict_json.NotStrictJson):
        return strict_json.decode(said["observation"])
    return said["observation"]


@require_POST
@login_required
def end_episode(request: HttpRequest, pk: int) -> HttpResponse:
    """Who plays the episode: it is over."""
    found = _played(request, pk)
    form = end_form(request.POST)
    return _done(
        request, found, "end_form", form, lambda said: finish(locked(pk), said["outcome"], said["reward"], said["reason"])
    )  # fmt: skip


def _played(request: HttpRequest, pk: int) -> Episode:
    """Raises Http404, PermissionDenied."""
    try:
        return played_by(Asker(request.user), pk)
    except NotTheirs as why:
        raise PermissionDenied(str(why)) from None


def _done(request: HttpRequest, found: Episode, name: str, form: Form, act: Callable[[dict], object]) -> HttpResponse:
    """The page again; with what was written, and why it was not taken, where it was not."""
    if form.is_valid():
        try:
            with transaction.atomic():
                act(form.cleaned_data)
        except CannotPlay as why:
            field, _, words = str(why).partition(": ")
            form.add_error(*((field, words) if words and field in {"observation", "reward"} else (None, str(why))))
        else:
            return redirect("episode", found.pk)
    context = context_of(request, found.pk)
    if name == "say_form":  # what was written may be said all the same: as what comes next now
        form.data = {**form.data.dict(), "number": context["episode"].turns}
    forms = {"say_form": say_form(found), "end_form": end_form(), name: form}
    return render(request, "dashboard/episode.html", {**context, **forms, "play": "say", "is_refused": True}, status=422)
