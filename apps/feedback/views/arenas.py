"""Judging in a blind arena: its page, the pairs that come next, and what is said of them.

Nothing that is sent here, and no address, tells who wrote an answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.feedback.arena.asking import next_pairs, progress_of
from apps.feedback.arena.pairs import Pair, first_is_left, name_of, named
from apps.feedback.arena.voting import LONGEST_MS, cast, pairings_of, take_back
from apps.feedback.forms import BadAnswer
from apps.feedback.models import Arena
from apps.feedback.showing import Reply, marked
from apps.feedback.submitting import Refused
from apps.feedback.views.answering import answered, optional_whole_in, uuid_in
from apps.rollouts.models import Rollout
from apps.rollouts.turns import turns_of
from apps.tasksets.models import Task

MOST_AT_ONCE, MOST_HELD = 3, 40
FIELDS = {"client_uuid", "pair", "said", "milliseconds"}


@dataclass(frozen=True)
class Shown:
    """A pair as its template shows it."""

    name: str
    prompt: list[dict]
    replies: Sequence[Reply]


@require_safe
@login_required
@never_cache
@gzip_page
def judge(request: HttpRequest, pk: int) -> HttpResponse:
    """Members of the arena's project who may rate: the frame of the page; pairs are fetched by its script."""
    arena = _arena(request, pk)
    progress = progress_of(request.user, arena, pairings_of(arena))
    context = {"section": "rate", "arena": arena, "progress": progress, "csrf_cookie": settings.CSRF_COOKIE_NAME}
    return render(request, "feedback/arena.html", context)


@require_safe
@never_cache
@gzip_page
def next_shown(request: HttpRequest, pk: int) -> HttpResponse:
    """The same people: up to `count` pairs, none of those named in `held`; without one that is left, words that say so."""
    if not request.user.is_authenticated:
        return JsonResponse({"detail": "You are signed out."}, status=401)
    arena = _arena(request, pk)
    pairings = pairings_of(arena)
    progress = progress_of(request.user, arena, pairings)
    pairs = []
    if arena.is_open:
        held = _held(request, arena, pairings)
        pairs = next_pairs(request.user, arena, pairings, progress, _count(request), held)
    if not pairs:
        return render(request, "feedback/_arena_end.html", {"arena": arena, "progress": progress})
    return HttpResponse("".join(_drawn(shown) for shown in shown_to(request.user, arena, pairs)))


@answered
def vote(request: HttpRequest, document: dict, pk: int) -> HttpResponse:
    """The same people: what is said of a pair. 201 taken, 200 when it was taken before, 409 and 422 in words."""
    unknown = sorted(set(document) - FIELDS)
    if unknown:
        raise BadAnswer({name[:100]: f"is no known field; known: {', '.join(sorted(FIELDS))}" for name in unknown[:5]})
    spent = optional_whole_in(document, "milliseconds")
    taken = cast(
        request.user, _judged(request, pk), document.get("pair"), document.get("said"), uuid_in(document, "client_uuid"),
        None if spent is None else min(spent, LONGEST_MS),
    )  # fmt: skip
    return JsonResponse({"vote": taken.vote}, status=201 if taken.is_new else 200)


@answered
def undo(request: HttpRequest, document: dict, pk: int) -> HttpResponse:
    """Whoever said it: the vote is taken back, and its pair comes again."""
    arena = _judged(request, pk)
    pair = take_back(request.user, arena, uuid_in(document, "client_uuid"), uuid_in(document, "new_uuid"))
    return HttpResponse("".join(_drawn(shown) for shown in shown_to(request.user, arena, [pair])))


def shown_to(user: User, arena: Arena, pairs: Sequence[Pair]) -> list[Shown]:
    """The pairs as this person sees them, each answer on its side. Two statements."""
    prompts = dict(Task.objects.filter(pk__in=[pair.task_id for pair in pairs]).values_list("pk", "prompt"))
    runs = {one.run_id for pair in pairs for one in (pair.pairing.first, pair.pairing.second)}
    rollouts = Rollout.objects.filter(
        run__in=runs, group__task__in=prompts, group__draw_index__isnull=False, origin=Rollout.Origin.POLICY,
        sample_index__in={pair.sample for pair in pairs},
    ).select_related("group")  # fmt: skip
    said = {(one.run_id, one.group.task_id, one.sample_index): one for one in rollouts}
    found = []
    for pair in pairs:
        sides = [pair.pairing.first.run_id, pair.pairing.second.run_id]
        if not first_is_left(arena, user, pair):
            sides.reverse()
        answers = [said[run, pair.task_id, pair.sample] for run in sides]
        found.append(Shown(name_of(arena, user, pair), prompts[pair.task_id], [_reply(n, one) for n, one in enumerate(answers)]))
    return found


def _reply(side: int, rollout: Rollout) -> Reply:
    return Reply(rollout.pk, side + 1, "AB"[side], rollout.text, marked(turns_of(rollout), {}))


def _drawn(shown: Shown) -> str:
    return render_to_string("feedback/_arena_pair.html", {"shown": shown})


def _arena(request: HttpRequest, pk: int) -> Arena:
    """Raises Http404."""
    return get_object_or_404(Arena.objects.judged_by(request.user).select_related("taskset", "project"), pk=pk)


def _judged(request: HttpRequest, pk: int) -> Arena:
    """As `_arena`, for programs. Raises Refused."""
    arena = Arena.objects.judged_by(request.user).select_related("taskset").filter(pk=pk).first()
    if arena is None:
        raise Refused("gone", "There is no such arena, or it is not yours to judge.")
    return arena


def _count(request: HttpRequest) -> int:
    text = request.GET.get("count", "1")
    if text not in [str(n) for n in range(1, MOST_AT_ONCE + 1)]:
        raise Http404(f"count must be 1 to {MOST_AT_ONCE}")
    return int(text)


def _held(request: HttpRequest, arena: Arena, pairings: Sequence) -> list[Pair]:
    """The pairs that the page has already, or whose votes are on their way."""
    names = [name for name in request.GET.get("held", "").split(",") if name][:MOST_HELD]
    return [pair for name in names if (pair := named(arena, pairings, request.user, name))]
