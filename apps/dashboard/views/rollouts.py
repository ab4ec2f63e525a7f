"""The rollouts of a run, and the page of one: what was said, token by token, and what was said about it."""

from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.dashboard.access import may_steer, seen_run
from apps.dashboard.lives import life_of
from apps.dashboard.paging import page_of, page_within
from apps.dashboard.rollout_rows import rows, with_judgements
from apps.dashboard.rollout_search import Filter
from apps.dashboard.shading import shading_of
from apps.dashboard.transcript import transcript_of, typed_in
from apps.dashboard.verdicts import CLOSED, verdict_on
from apps.feedback.models import Rating
from apps.feedback.saying import rating_in_words
from apps.feedback.starring import ratable_by
from apps.rewards.models import Rescored
from apps.rollouts.models import Rollout
from apps.runs.blindness import sees_judgements
from apps.runs.limits import limits_of
from apps.runs.models import Run
from apps.tasksets.limits import BadLimits, limits_in

RATINGS, EPISODES, SETS = 50, 5, 5  # shown of one rollout


@require_safe
@login_required
def rollouts(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project."""
    run = seen_run(request, project, slug)
    is_open = sees_judgements(request.user, run)
    form = Filter(request.GET, is_open=is_open)
    form.is_valid()
    found = with_judgements(form.narrow(run, run.rollouts.without_anchors().exclude(state=Rollout.State.SAMPLING)))
    page = page_within(found, run.rollouts.all(), form.reach, request) if form.reach else page_of(found, request)
    context = {
        "section": "runs", "run": run, "page": page, "rows": rows(page.rows, request.user), "form": form, "is_open": is_open,
        "fates": _tabs(request, form), "may_steer": may_steer(request, run),
    }  # fmt: skip
    return render(request, "dashboard/rollouts.html", context)


@require_safe
@login_required
def rollout(request: HttpRequest, pk: int) -> HttpResponse:
    """Members of the project of the rollout's run."""
    visible = Rollout.objects.filter(run__in=Run.objects.visible_to(request.user))
    beside = ("payload", "group__task__taskset", "group__seed__of__run", "run__project", "run__policy", "descent")
    found = get_object_or_404(with_judgements(visible).select_related(*beside), pk=pk)
    group = Rollout.objects.without_anchors().filter(group=found.group)
    siblings = rows(with_judgements(group).order_by("sample_index"), request.user)
    [row] = rows([found], request.user)
    about = Q(rollout=found) | Q(item__group=found.group_id, rollout=None, shown__contains=[found.pk])
    ratings = Rating.objects.filter(about, is_withdrawn=False).select_related("rater").order_by("-pk")
    is_open, typed = row["is_open"], typed_in(found)
    ratings = (ratings if is_open else ratings.filter(rater=request.user))[:RATINGS]
    verdict = verdict_on(found, found.learned) if is_open or row["station"] != "closed" else CLOSED
    context = {
        "section": "runs", "run": found.run, "rollout": found, "row": row, "siblings": siblings, "is_open": is_open,
        "shading": shading_of(found, typed) if is_open and hasattr(found, "payload") else None,
        "said": transcript_of(found, typed) if found.turns else [],
        "verdict": verdict, "life": life_of(found, verdict, is_open),
        "ratings": [(rating, rating_in_words(rating)) for rating in ratings],
        "episodes": found.episodes.select_related("environment").order_by("-fence")[:EPISODES],
        "limits": _limits(found),
        "rescored": _rescored(found) if is_open else [],
        "may_rate": ratable_by(request.user).filter(pk=found.pk).exists(),
        "may_make_gold": found.state == Rollout.State.FINISHED and may_steer(request, found.run),
    }  # fmt: skip
    return render(request, "dashboard/rollout.html", context)


def _limits(found: Rollout) -> dict | None:
    """What bounds an answer that its run samples, as the run has it now, and whether the task says so itself."""
    plan, meta = found.run.settings, found.group.task.meta
    if found.origin != Rollout.Origin.POLICY or not plan.samples:
        return None
    try:
        own, held = limits_in(meta), limits_of(plan, meta)
    except BadLimits:  # of a run that is older than limits of tasks
        return None
    return {
        "tokens": held.max_tokens, "is_own_tokens": held.max_tokens == own.max_tokens,
        "seconds": held.time_s, "is_own_seconds": held.time_s is not None and held.time_s == own.time_s,
    }  # fmt: skip


def _tabs(request: HttpRequest, form: Filter) -> list[tuple[str, str]]:
    """Each fate with the address of its list; what else is asked for stays."""
    others = {name: value for name, value in request.GET.items() if name in form.fields and name != "fate" and value}
    return [(name, "?" + urlencode({**({"fate": name} if name else {}), **others})) for name, _ in form.fields["fate"].choices]


def _rescored(found: Rollout) -> QuerySet[Rescored]:
    """What new sets of rewards say of it, the newest first."""
    return Rescored.objects.filter(rollout=found).select_related("rescoring").order_by("-rescoring")[:SETS]
