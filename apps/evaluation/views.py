"""Views of a blind arena: its page, the next pairs, and votes.

No response and no URL shows who wrote an answer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.accounts.rating_keys import EVERYWHERE, by_form, keys_by_action
from apps.accounts.requests import SignedInRequest
from apps.evaluation.arena.asking import arena_progress, next_pairs
from apps.evaluation.arena.pairs import Pair, find_pair, first_is_left, name_pair
from apps.evaluation.arena.voting import MAX_MS, cast, list_pairings, take_back
from apps.evaluation.models import Arena
from apps.feedback.forms import BadAnswer
from apps.feedback.item_display import Reply, mark_turns
from apps.feedback.ratings.answers import Refused
from apps.feedback.views.answering import accept_json_post, optional_whole_in, uuid_in
from apps.rollouts.models import Rollout
from apps.rollouts.turns import list_turns
from apps.tasksets.models import Task

MAX_CONCURRENT = 3
MAX_HELD = 40
FIELDS = {"client_uuid", "pair", "choice", "milliseconds"}


@dataclass(frozen=True)
class ShownPair:
    """A pair as its template shows it."""

    name: str
    prompt: list[dict]
    replies: Sequence[Reply]
    difference_key: str


@require_safe
@login_required
@never_cache
def show_arena_page(request: SignedInRequest, pk: int) -> HttpResponse:
    """Show the frame of an arena's page, for project members who may rate.

    The page's script fetches the pairs.
    """
    arena = _arena(request.user, pk)
    progress = arena_progress(request.user, arena, list_pairings(arena))
    context = {
        "section": "rate",
        "arena": arena,
        "progress": progress,
        "keys": keys_by_action(request.user.rating_keys),
        "keys_json": json.dumps(_actions_by_key(request.user)),
    }
    return render(request, "evaluation/arena.html", context)


@require_safe
@never_cache
def next_shown(request: HttpRequest, pk: int) -> HttpResponse:
    """Render up to `count` pairs, none of those named in `held`, for members who may rate.

    Without one that is left, a text says so.
    """
    if not request.user.is_authenticated:
        return JsonResponse({"detail": "You are signed out."}, status=401)
    user = request.user
    arena = _arena(user, pk)
    pairings = list_pairings(arena)
    progress = arena_progress(user, arena, pairings)
    pairs = []
    if arena.is_open:
        shown_pairs = _pairs_on_page(request, user, arena, pairings)
        pairs = next_pairs(user, arena, pairings, progress, _count(request), shown_pairs)
    if not pairs:
        undo_key = keys_by_action(user.rating_keys)["undo"]
        end = {"arena": arena, "progress": progress, "undo_key": undo_key}
        return render(request, "evaluation/_arena_end.html", end)
    return HttpResponse(
        "".join(_render_pair(shown_pair) for shown_pair in show_pairs(user, arena, pairs))
    )


@accept_json_post
def vote(request: SignedInRequest, document: dict, pk: int) -> HttpResponse:
    """Save a vote about a pair, for members who may rate.

    Answers 201 when it is new, 200 when it was saved before, 409 and 422 in words.
    """
    unknown = sorted(set(document) - FIELDS)
    if unknown:
        raise BadAnswer(
            {
                name[:100]: f"is not a known field; fields: {', '.join(sorted(FIELDS))}"
                for name in unknown[:5]
            }
        )
    spent = optional_whole_in(document, "milliseconds")
    cast_vote = cast(
        request.user,
        _find_judgeable(request.user, pk),
        document.get("pair"),
        document.get("choice"),
        uuid_in(document, "client_uuid"),
        None if spent is None else min(spent, MAX_MS),
    )
    return JsonResponse({"vote": cast_vote.vote}, status=201 if cast_vote.is_new else 200)


@accept_json_post
def withdraw_vote(request: SignedInRequest, document: dict, pk: int) -> HttpResponse:
    """Withdraw a vote for its author; its pair comes again."""
    arena = _find_judgeable(request.user, pk)
    pair = take_back(
        request.user, arena, uuid_in(document, "client_uuid"), uuid_in(document, "new_uuid")
    )
    return HttpResponse(
        "".join(_render_pair(shown_pair) for shown_pair in show_pairs(request.user, arena, [pair]))
    )


def show_pairs(user: User, arena: Arena, pairs: Sequence[Pair]) -> list[ShownPair]:
    """Return the pairs as this person sees them, each answer on its side. Two statements."""
    prompts = dict(
        Task.objects.filter(pk__in=[pair.task_id for pair in pairs]).values_list("pk", "prompt")
    )
    runs = {
        contestant.run_id
        for pair in pairs
        for contestant in (pair.pairing.first, pair.pairing.second)
    }
    rollouts = Rollout.objects.filter(
        run__in=runs,
        group__task__in=prompts,
        group__draw_index__isnull=False,
        origin=Rollout.Origin.POLICY,
        sample_index__in={pair.sample for pair in pairs},
    ).select_related("group")
    replies = {
        (rollout.run_id, rollout.group.task_id, rollout.sample_index): rollout
        for rollout in rollouts
    }
    key = keys_by_action(user.rating_keys)["difference"]
    shown_pairs = []
    for pair in pairs:
        sides = [pair.pairing.first.run_id, pair.pairing.second.run_id]
        if not first_is_left(arena, user, pair):
            sides.reverse()
        answers = [replies[run, pair.task_id, pair.sample] for run in sides]
        shown_pairs.append(
            ShownPair(
                name_pair(arena, user, pair),
                prompts[pair.task_id],
                [_reply(n, rollout) for n, rollout in enumerate(answers)],
                key,
            )
        )
    return shown_pairs


def _actions_by_key(user: User) -> dict[str, str]:
    """Return the actions by key: those of pairs on the rating page, and those of all forms."""
    keys = by_form(user.rating_keys)
    return {**keys[EVERYWHERE], **keys["pairwise"]}


def _reply(side: int, rollout: Rollout) -> Reply:
    return Reply(
        rollout.pk, side + 1, "AB"[side], rollout.text, mark_turns(list_turns(rollout), {})
    )


def _render_pair(shown_pair: ShownPair) -> str:
    return render_to_string("evaluation/_arena_pair.html", {"shown": shown_pair})


def _arena(user: User, pk: int) -> Arena:
    """Return the arena. Raises Http404."""
    return get_object_or_404(
        Arena.objects.judged_by(user).select_related("taskset", "project"), pk=pk
    )


def _find_judgeable(user: User, pk: int) -> Arena:
    """Return an arena that the user may judge. Raises Refused."""
    arena = Arena.objects.judged_by(user).select_related("taskset").filter(pk=pk).first()
    if arena is None:
        raise Refused("gone", "The arena doesn’t exist, or you can’t vote in it.")
    return arena


def _count(request: HttpRequest) -> int:
    text = request.GET.get("count", "1")
    if text not in [str(n) for n in range(1, MAX_CONCURRENT + 1)]:
        raise Http404(f"count must be 1 to {MAX_CONCURRENT}")
    return int(text)


def _pairs_on_page(
    request: HttpRequest, user: User, arena: Arena, pairings: Sequence
) -> list[Pair]:
    """Return the pairs that the page has already, or whose votes are on their way."""
    names = [name for name in request.GET.get("held", "").split(",") if name][:MAX_HELD]
    return [pair for name in names if (pair := find_pair(arena, pairings, user, name))]
