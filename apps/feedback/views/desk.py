"""The rating desk: one group of replies at a time, and the one address that takes stars."""

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.feedback.models import STARS, Rating
from apps.feedback.starring import waiting_rollouts
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

MOST_SKIPPED = 50


@require_safe
@login_required
def desk(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the most urgent group that waits for them, not among `?skip=`, of `?run=` if given."""
    skipped = _numbers(request, "skip")
    waiting = waiting_rollouts(request.user).exclude(group__in=skipped)
    if run := _numbers(request, "run"):
        waiting = waiting.filter(run=run[0])
    first = waiting.select_related("group__task", "group__run__project").first()
    context = {"section": "rate", **(_group(request, first.group, skipped) if first else _done_today(request, skipped))}
    return render(request, "feedback/_desk.html" if request.htmx else "feedback/desk.html", context)


def _group(request: HttpRequest, group: Group, skipped: list[int]) -> dict:
    rollouts = list(group.rollouts.filter(state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY).order_by("sample_index"))
    given = dict(
        Rating.objects.counting()
        .filter(rater=request.user, rollout__in=rollouts, form=STARS)
        .values_list("rollout_id", "answer__stars")
    )
    left = max(0, round((group.deadline_at - timezone.now()).total_seconds())) if group.deadline_at else None
    return {
        "group": group, "run": group.run, "answers": [{"rollout": rollout, "stars": given.get(rollout.pk)} for rollout in rollouts],
        "left": left, "skip_next": ",".join(map(str, [*skipped, group.pk][-MOST_SKIPPED:])),
    }  # fmt: skip


def _done_today(request: HttpRequest, skipped: list[int]) -> dict:
    """What an empty desk tells: how much this person has rated today, and whether skipped groups are still there."""
    since = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    mine = Rating.objects.filter(rater=request.user, at__gte=since)
    asking = (
        Run.objects.visible_to(request.user).running().filter(config__people__per_group__gt=0).select_related("project").first()
    )
    said = mine.aggregate(rated_today=Count("pk"), late_today=Count("pk", filter=Q(is_late=True)))
    return {"group": None, "skipped": len(skipped), "asking": asking, **said}


def _numbers(request: HttpRequest, name: str) -> list[int]:
    parts = [part for part in request.GET.get(name, "").split(",") if part]
    if len(parts) > MOST_SKIPPED or not all(part.isascii() and part.isdigit() and len(part) < 18 for part in parts):
        raise Http404(f"{name} must be numbers with commas between")
    return [int(part) for part in parts]
