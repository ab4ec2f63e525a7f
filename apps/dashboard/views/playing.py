"""Playing an environment by hand: take an episode, give observations and rewards, and end it."""

from collections.abc import Callable
from contextlib import suppress

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.forms import Form
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST
from rest_framework.exceptions import PermissionDenied as NotTheirs

from apps.accounts import strict_json
from apps.accounts.requests import SignedInRequest
from apps.dashboard.play_form import end_form, say_form
from apps.dashboard.views.episodes import episode_context
from apps.environments.access import Asker, get_played_episode, require_to_play
from apps.environments.episode_opening import assign_episode
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment, Episode, any_text
from apps.environments.playing import locked
from apps.environments.turn_messages import finish_episode, record_observation

TAKEN = (
    "The episode is not free any more: someone plays it, its run is not active, or the maximum"
    " number of episodes is reached."
)


@require_POST
@login_required
def take_episode(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: take an episode without a player."""
    visible = Episode.objects.visible_to(request.user).select_related("environment__project")
    episode = get_object_or_404(visible, pk=pk, environment__kind=Environment.Kind.PUSH)
    try:
        require_to_play(Asker(request.user), episode.environment)
    except NotTheirs as why:
        raise PermissionDenied(str(why)) from None
    if assign_episode(episode.environment, request.user, episode_id=pk, by_hand=True) is None:
        messages.error(request, TAKEN)
    return redirect("episode", pk)


@require_POST
@login_required
def say_turn(request: SignedInRequest, pk: int) -> HttpResponse:
    """The player of the episode: give the next observation and the reward of the last action."""
    episode = _playable_episode(request, pk)
    form = say_form(episode, request.POST)
    return _apply_action(
        request,
        episode,
        "say_form",
        form,
        lambda fields: record_observation(
            locked(pk), **{**fields, "observation": _read(episode, fields)}
        ),
    )


def _read(episode: Episode, data: dict) -> object:
    """Return the observation: text, or parsed JSON if the environment registered a schema."""
    if episode.environment.observation_schema == any_text():
        return data["observation"]
    with suppress(strict_json.NotStrictJson):
        return strict_json.decode_json(data["observation"])
    return data["observation"]


@require_POST
@login_required
def end_episode(request: SignedInRequest, pk: int) -> HttpResponse:
    """The player of the episode: end it."""
    episode = _playable_episode(request, pk)
    form = end_form(request.POST)
    return _apply_action(
        request,
        episode,
        "end_form",
        form,
        lambda fields: finish_episode(
            locked(pk), fields["outcome"], fields["reward"], fields["reason"]
        ),
    )


def _playable_episode(request: SignedInRequest, pk: int) -> Episode:
    """Return the episode if the user may play it. Raise Http404, PermissionDenied."""
    try:
        return get_played_episode(Asker(request.user), pk)
    except NotTheirs as why:
        raise PermissionDenied(str(why)) from None


def _apply_action(
    request: SignedInRequest, episode: Episode, name: str, form: Form, act: Callable[[dict], object]
) -> HttpResponse:
    """Apply the action and redirect; if it is refused, show the form again with the reason."""
    if form.is_valid():
        try:
            with transaction.atomic():
                act(form.cleaned_data)
        except CannotPlay as why:
            field, _, words = str(why).partition(": ")
            form.add_error(
                *(
                    (field, words)
                    if words and field in {"observation", "reward"}
                    else (None, str(why))
                )
            )
        else:
            return redirect("episode", episode.pk)
    context = episode_context(request, episode.pk)
    if name == "say_form":  # the text may be sent again as the next observation
        form.data = {**request.POST.dict(), "number": context["episode"].turns}
    forms = {"say_form": say_form(episode), "end_form": end_form(), name: form}
    return render(
        request,
        "dashboard/episode.html",
        {**context, **forms, "play": "say", "is_refused": True},
        status=422,
    )
