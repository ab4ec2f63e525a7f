"""A group's rollouts side by side: what each said and counts, beside the mean that it is compared with."""

import statistics
from collections import defaultdict
from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.dashboard.access import may_steer, seen_run
from apps.dashboard.rollout_rows import rows, with_judgements
from apps.dashboard.verdicts import CLOSED, verdicts_on
from apps.feedback.models import Rating
from apps.feedback.saying import rating_in_words
from apps.rollouts.models import Group, Rollout
from apps.runs.blindness import sees_judgements
from apps.runs.models import Run

MOST_SHOWN = 64  # of an experts' group, which grows
RATINGS = 100
SAME = 1e-6  # rewards that differ by less tell the trainer nothing


@require_safe
@login_required
def group(request: HttpRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Members of the run's project. Who judges it blind sees what was said, and their own word alone."""
    run = seen_run(request, project, slug)
    found = get_object_or_404(run.groups.select_related("task__taskset"), pk=pk)
    members = Rollout.objects.without_anchors().filter(group=found).order_by("sample_index")[:MOST_SHOWN]
    sides = rows(with_judgements(members), request.user)
    is_open = sides[0]["is_open"] if sides else sees_judgements(request.user, run)
    verdicts = verdicts_on([(side["rollout"], side["rollout"].learned) for side in sides]) if is_open else {}
    said = _said(found, sides, request.user, is_open)
    for side in sides:
        rollout = side["rollout"]
        side["verdict"] = verdicts.get(rollout.pk) or (CLOSED if side["station"] == "closed" else None)
        side["said"] = said[rollout.pk]
    context = {
        "section": "runs", "run": run, "group": found, "sides": sides, "is_open": is_open, "said": said[None],
        "sum": _sum(found, sides) if is_open else None, "may_steer": may_steer(request, run),
        "here": request.GET.get("rollout", ""), "station": sides[0]["station"] if sides else "", **_neighbours(run, found),
    }  # fmt: skip
    return render(request, "dashboard/group.html", context)


def _neighbours(run: Run, found: Group) -> dict[str, Group | None]:
    """The groups drawn just before and just after it."""
    if found.draw_index is None:
        return {"older": None, "newer": None}
    drawn = run.groups.only("pk", "draw_index")
    return {
        "older": drawn.filter(draw_index__lt=found.draw_index).order_by("-draw_index").first(),
        "newer": drawn.filter(draw_index__gt=found.draw_index).order_by("draw_index").first(),
    }


def _said(found: Group, sides: Sequence[dict], user: User, is_open: bool) -> dict[int | None, list[tuple[Rating, str]]]:
    """What people said, by rollout; under None what compares several."""
    ids = [side["rollout"].pk for side in sides]
    about = Rating.objects.filter(Q(rollout__in=ids) | Q(item__group=found, rollout=None), is_withdrawn=False, is_current=True)
    about = about if is_open else about.filter(rater=user)
    said: dict[int | None, list[tuple[Rating, str]]] = defaultdict(list)
    for rating in about.select_related("rater").order_by("-pk")[:RATINGS]:
        said[rating.rollout_id].append((rating, rating_in_words(rating)))
    return said


def _sum(found: Group, sides: Sequence[dict]) -> dict:
    """The group's own figures, and in words why nothing can be learned of it, where that is so."""
    rewards = [side["reward"] for side in sides if side["reward"] is not None]
    versions = sorted({side["version"] for side in sides if side["version"] is not None})
    steps = sorted({side["step"] for side in sides if side["step"] is not None})
    return {
        "judged": len(rewards), "mean": statistics.fmean(rewards) if rewards else None,
        "spread": statistics.pstdev(rewards) if rewards else None, "best": max(rewards, default=None),
        "versions": versions, "steps": steps, "dead": _why_dead(found, rewards),
    }  # fmt: skip


def _why_dead(found: Group, rewards: Sequence[float]) -> str:
    if found.state == Group.State.DROPPED:
        return f"Nothing is learned of it: {found.reason}."
    if found.draw_index is None:
        return ""
    if len(rewards) > 1 and max(rewards) - min(rewards) < SAME:
        return f"All its rewards are {rewards[0]:.2f}: none is better than the others, so its advantages are 0 and teach nothing."
    return ""
