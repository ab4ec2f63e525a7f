"""A group's rollouts side by side, with their rewards beside the group's mean."""

import statistics
from collections import defaultdict
from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.accounts.requests import SignedInRequest
from apps.buffer.models import Experience
from apps.dashboard.access import may_see_judgements, may_steer, seen_run
from apps.dashboard.rollout_rows import STEP, build_rollout_rows, with_judgements
from apps.dashboard.verdicts import CLOSED, verdicts_on
from apps.feedback.answer_texts import rating_in_words
from apps.feedback.models import Rating
from apps.rewards.combining_rows import combined_so_far
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

MAX_SHOWN = 64  # rollouts side by side; a group has up to 1,024, and a group of experts grows
RATINGS = 100
MAX_INTEGER = 2**31 - 1
SAME = 1e-6  # rewards that differ by less carry no training signal


@require_safe
@login_required
def group(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Members of the run's project.

    Blind raters see the replies and their own ratings only.
    """
    run = seen_run(request, project, slug)
    shown_group = get_object_or_404(run.groups.select_related("task__taskset", "run"), pk=pk)
    members = Rollout.objects.without_anchors().filter(group=shown_group)
    stretch = _stretch(request, members)
    sides = build_rollout_rows(
        with_judgements(
            members.filter(**stretch["from_here"]).order_by("sample_index")[:MAX_SHOWN]
        ),
        request.user,
    )
    is_open = sides[0]["is_open"] if sides else may_see_judgements(request, run)
    verdicts = (
        verdicts_on([(side["rollout"], side["rollout"].learned) for side in sides])
        if is_open
        else {}
    )
    ratings = _ratings_by_rollout(shown_group, sides, request.user, is_open)
    for side in sides:
        rollout = side["rollout"]
        side["verdict"] = verdicts.get(rollout.pk) or (
            CLOSED if side["station"] == "closed" else None
        )
        side["ratings"] = ratings[rollout.pk]
    context = {
        "section": "runs",
        "run": run,
        "group": shown_group,
        "sides": sides,
        "is_open": is_open,
        "ratings": ratings[None],
        "sum": _group_metrics(shown_group, members) if is_open else None,
        "stretch": stretch,
        "may_steer": may_steer(request, run),
        "here": request.GET.get("rollout", ""),
        "station": sides[0]["station"] if sides else "",
        **_neighbours(run, shown_group),
    }
    return render(request, "dashboard/group.html", context)


def _stretch(request: SignedInRequest, members: QuerySet[Rollout]) -> dict:
    """Return the slice of the group's rollouts that is shown.

    It begins at the sample in the URL, or at the rollout it names. `before` and `after` are the
    first samples of the neighbouring slices, `ahead` the number of rollouts before this one.
    """
    first = _first_sample(request, members)
    count = members.count()
    earlier = members.filter(sample_index__lt=first).order_by("-sample_index")
    ahead = earlier.count()
    later = (
        members.filter(sample_index__gte=first)
        .order_by("sample_index")
        .values_list("sample_index", flat=True)
    )
    before = list(earlier.values_list("sample_index", flat=True)[:MAX_SHOWN])
    return {
        "from_here": {"sample_index__gte": first},
        "count": count,
        "ahead": ahead,
        "first": ahead + 1,
        "last": min(count, ahead + MAX_SHOWN),
        "before": before[-1] if before else None,
        "after": next(iter(later[MAX_SHOWN : MAX_SHOWN + 1]), None),
        "is_cut": count > MAX_SHOWN,
    }


def _first_sample(request: SignedInRequest, members: QuerySet[Rollout]) -> int:
    """Return the first sample to show. Raise Http404 for an invalid number."""
    first = request.GET.get("from", "")
    rollout_id = request.GET.get("rollout", "")
    if any(
        text and not (text.isascii() and text.isdigit() and len(text) < 19)
        for text in (first, rollout_id)
    ):
        raise Http404("from must be a sample number and rollout a rollout id")
    if first:
        return min(int(first), MAX_INTEGER)
    place = (
        members.filter(pk=int(rollout_id)).values_list("sample_index", flat=True).first()
        if rollout_id
        else None
    )
    if place is None or members.filter(sample_index__lt=place).count() < MAX_SHOWN:
        return 0
    return place


def _neighbours(run: Run, group: Group) -> dict[str, Group | None]:
    """Return the groups opened just before and just after this one."""
    if group.draw_index is None:
        return {"older": None, "newer": None}
    groups = run.groups.only("pk", "draw_index")
    return {
        "older": groups.filter(draw_index__lt=group.draw_index).order_by("-draw_index").first(),
        "newer": groups.filter(draw_index__gt=group.draw_index).order_by("draw_index").first(),
    }


def _ratings_by_rollout(
    group: Group, sides: Sequence[dict], user: User, is_open: bool
) -> dict[int | None, list[tuple[Rating, str]]]:
    """Return people's ratings by rollout; None holds those that compare several."""
    ids = [side["rollout"].pk for side in sides]
    about = Rating.objects.filter(
        Q(rollout__in=ids) | Q(item__group=group, rollout=None), is_withdrawn=False, is_current=True
    )
    about = about if is_open else about.filter(rater=user)
    ratings: dict[int | None, list[tuple[Rating, str]]] = defaultdict(list)
    for rating in about.select_related("rater").order_by("-pk")[:RATINGS]:
        ratings[rating.rollout_id].append((rating, rating_in_words(rating)))
    return ratings


def _group_metrics(group: Group, members: QuerySet[Rollout]) -> dict:
    """Return the metrics of the whole group, and why nothing can be learned from it, if so."""
    learned = Experience.objects.filter(rollout__in=members).annotate(step=STEP).order_by("-pk")
    admitted = {
        rollout: (reward, step)
        for rollout, reward, step in learned.values_list("rollout_id", "reward", "step")
    }
    not_admitted = members.exclude(pk__in=admitted).annotate(
        so_far=combined_so_far(group.run.settings)
    )
    rewards = [reward for reward, _ in admitted.values()] + list(
        not_admitted.values_list("so_far", flat=True)
    )
    rewards = [reward for reward in rewards if reward is not None]
    versions = (
        members.exclude(last_version=None)
        .order_by("last_version")
        .values_list("last_version", flat=True)
        .distinct()
    )
    return {
        "judged": len(rewards),
        "mean": statistics.fmean(rewards) if rewards else None,
        "spread": statistics.pstdev(rewards) if rewards else None,
        "best": max(rewards, default=None),
        "versions": list(versions),
        "steps": sorted({step for _, step in admitted.values() if step is not None}),
        "dead": _why_dead(group, rewards),
    }


def _why_dead(group: Group, rewards: Sequence[float]) -> str:
    if group.state == Group.State.DROPPED:
        return f"Not used for training: {group.reason}."
    if group.draw_index is None:
        return ""
    if len(rewards) > 1 and max(rewards) - min(rewards) < SAME:
        return (
            f"All rewards are {rewards[0]:.2f}, so all advantages are 0 and the group teaches"
            " nothing."
        )
    return ""
