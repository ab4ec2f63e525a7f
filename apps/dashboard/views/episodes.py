"""One episode, turn by turn: observation, action, reward, and the time of each side."""

import json

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements
from apps.dashboard.environments import earned_by, share_of_best
from apps.dashboard.environments_turns import TURNS_SHOWN, list_moves
from apps.dashboard.play_form import end_form, say_form
from apps.environments.models import Environment, Episode
from apps.environments.turn_text import count_tokens_before
from apps.feedback.interventions import runs_steered_by

ATTEMPTS_SHOWN = 10


@require_safe
@login_required
def episode(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the project of the episode's environment."""
    return render(request, "dashboard/episode.html", episode_context(request, pk))


@require_safe
@login_required
def episode_now(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the project: the polled part of the page."""
    return render(request, "dashboard/_episode_now.html", episode_context(request, pk))


def episode_context(request: SignedInRequest, pk: int) -> dict:
    """Return the context of the page. Raise Http404."""
    visible = Episode.objects.visible_to(request.user)
    joined = visible.select_related(
        "environment__project", "run__project", "client", "session__user"
    )
    episode = get_object_or_404(
        joined.select_related(
            "rollout__group__task__taskset", "rollout__payload", "rollout__run__policy"
        ),
        pk=pk,
    )
    is_open = episode.run is None or may_see_judgements(request, episode.run)
    first = _number(request, "from")
    whole_turn = _number(request, "whole")
    earned, _ = earned_by([episode.pk]).get(episode.pk, (None, None)) if is_open else (None, None)
    attempts = (
        episode.rollout.episodes.exclude(pk=episode.pk).order_by("-fence")[:ATTEMPTS_SHOWN]
        if episode.rollout
        else []
    )
    return {
        "section": "environments",
        "episode": episode,
        "environment": episode.environment,
        "run": episode.run,
        "is_open": is_open,
        "moves": list_moves(episode, _start(episode, first), whole_turn, is_open),
        "earned": earned,
        "attempts": attempts,
        "share": share_of_best(episode.environment, earned),
        "query": request.GET.urlencode(),
        "page_turns": TURNS_SHOWN,
        "options": json.dumps(episode.options, indent=2, ensure_ascii=False)
        if episode.options
        else "",
        **_playing(request, episode),
        "task": episode.rollout and episode.rollout.group.task,
        "may_steer": _may_steer(request, episode),
    }


def _playing(request: SignedInRequest, episode: Episode) -> dict:
    """Return what the user may do as the environment.

    `play` is take, say, wait (for the policy's move) or empty.
    """
    if (
        not episode.is_open
        or episode.environment.kind != Environment.Kind.PUSH
        or not _may_play(request, episode)
    ):
        return {"play": ""}
    if episode.state == Episode.State.WAITING:
        return {"play": "take"}
    if episode.client_id != request.user.pk:
        return {"play": ""}
    if episode.state == Episode.State.POLICY:
        return {"play": "wait", "past": count_tokens_before(episode.pk, episode.turns - 1)}
    last = episode.seen.filter(answered_at__isnull=False).order_by("-number").first()
    limit = episode.environment.person_s if episode.by_hand else episode.environment.turn_s
    remaining_s = max(0.0, limit - (timezone.now() - episode.moved_at).total_seconds())
    return {
        "play": "say",
        "left_s": remaining_s,
        "say_form": say_form(episode),
        "end_form": end_form(),
        "last": last,
    }


def _may_play(request: SignedInRequest, episode: Episode) -> bool:
    return Project.objects.run_by(request.user).filter(pk=episode.environment.project_id).exists()


def _may_steer(request: SignedInRequest, episode: Episode) -> bool:
    """Tell whether the user may take over the policy in this episode, on the live wall."""
    rollout = episode.rollout
    return (
        episode.is_open
        and rollout is not None
        and episode.run is not None
        and episode.run_id in runs_steered_by(request.user, [episode.run])
    )


def _start(episode: Episode, first: int | None) -> int:
    """Return the first turn of the page.

    It is the one in the URL; else the first, or for a live episode one near the end.
    """
    if first is not None:
        return first
    return max(0, episode.turns - TURNS_SHOWN) if episode.is_open else 0


def _number(request: SignedInRequest, name: str) -> int | None:
    text = request.GET.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Http404(f"{name} must be the number of a turn")
    return int(text)
