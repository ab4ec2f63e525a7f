"""The rollouts of a run, and the page of one: its tokens and its ratings."""

import uuid
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, seen_run
from apps.dashboard.reward_bars import RewardBar, RewardBars, build_reward_bars
from apps.dashboard.rollout_rows import EXCERPT, JudgedRollout, build_rollout_rows, with_judgements
from apps.dashboard.rollout_search import Filter
from apps.dashboard.rollout_timeline import list_rollout_stages
from apps.dashboard.shading import list_segments, read_raw_arrays, shade_tokens
from apps.dashboard.transcript import build_transcript, typed_in
from apps.dashboard.verdicts import CLOSED, verdict_on
from apps.dashboard.views.picking import MAX_SELECTED as MAX_PICKED
from apps.feedback.answer_texts import rating_in_words
from apps.feedback.models import Rating
from apps.feedback.ratings.stars import openly_ratable_by
from apps.rewards.models import Rescored
from apps.rollouts.full_text_search import mark_matches
from apps.rollouts.models import Rollout
from apps.runs.limits import read_limits
from apps.runs.models import Run
from apps.tasksets.limits import BadLimits, limits_in
from apps.tasksets.models import Taskset

RATINGS = 50
EPISODES = 5
SETS = 5
SIBLINGS = 32  # siblings shown for one rollout
SETS_NAMED = 50
RANGE = ("reward_from", "reward_to")
STOPS = ("stop", "length", "time", "repetition", "abort")


@require_safe
@login_required
def rollouts(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project."""
    run = seen_run(request, project, slug)
    is_open = may_see_judgements(request, run)
    form = Filter(request.GET, is_open=is_open)
    form.is_valid()
    page = form.page(run, with_judgements(matching_rollouts(form, run), with_run=False), request)
    for shown in page.rows:
        shown.run = run
    rows = build_rollout_rows(page.rows, request.user, {run.pk} if is_open else set())
    shape = form.sought.shape if form.sought else None
    addresses = (reverse("rollout", args=[0]), reverse("group", args=[project, slug, 0]))
    for row in rows:
        row["pieces"] = mark_matches(row["rollout"].text, shape, EXCERPT) if shape else []
        row["id"] = str(row["rollout"].pk)  # not formatted as a number each time it is written
        row["address"] = _replace_id(addresses[0], row["rollout"].pk)
        row["group_address"] = _replace_id(addresses[1], row["rollout"].group_id)
    context = {
        "section": "runs",
        "run": run,
        "page": page,
        "rows": rows,
        "form": form,
        "is_open": is_open,
        "query": urlencode(read_filter_parameters(request, form)),
        "fates": _tabs(request, form),
        "may_steer": may_steer(request, run),
        "steps": _steps(request, form, run),
        "scorers": [choice.scorer for choice in run.settings.rewards],
        "stops": STOPS,
        "tasksets": run.settings.taskset_names,
        "limit": MAX_PICKED,
    }
    return render(request, "dashboard/rollouts.html", context)


def _replace_id(address: str, pk: int) -> str:
    """Return the address of this id, made of that of id 0: to look each one up costs much more."""
    return f"{address.removesuffix('0/')}{pk}/"


@require_safe
@login_required
def rollout_bars(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project who see its ratings: the rewards of filtered rollouts."""
    run = seen_run(request, project, slug)
    if not may_see_judgements(request, run):
        raise PermissionDenied("You rate this run blind, so rewards are hidden.")
    form = Filter(request.GET, is_open=True)
    form.is_valid()
    bars = build_reward_bars(run, form, matching_rollouts(form, run))
    context = {
        "run": run,
        "form": form,
        "bars": bars,
        "links": _bar_links(request, form, bars) if bars else [],
        "all_rewards": (
            f"{reverse('rollouts', args=[project, slug])}"
            f"?{urlencode(read_filter_parameters(request, form, *RANGE))}"
        ),
        "is_narrowed": any(name in form.criteria for name in RANGE),
    }
    return render(request, "dashboard/_rollout_bars.html", context)


def _bar_links(
    request: SignedInRequest, form: Filter, bars: RewardBars
) -> list[tuple[RewardBar, str]]:
    """Return each bar with the URL of the list of its rewards."""
    other_filters = read_filter_parameters(request, form, *RANGE)
    return [
        (bar, "?" + urlencode({**other_filters, "reward_from": bar.since, "reward_to": bar.until}))
        for bar in bars.bars
    ]


def read_filter_parameters(request: SignedInRequest, form: Filter, *without: str) -> dict[str, str]:
    """Return the filter's parameters in the URL, without the cursor."""
    return {
        name: str(value)
        for name, value in request.GET.items()
        if name in form.fields and name not in without and value
    }


def matching_rollouts(form: Filter, run: Run) -> QuerySet[Rollout]:
    """Return the run's ended rollouts that match, before any words are searched."""
    return form.narrow(run, Rollout.objects.of_run(run).exclude(state=Rollout.State.SAMPLING))


def _steps(request: SignedInRequest, form: Filter, run: Run) -> dict | None:
    """Return the navigation between steps: this one, and the URLs of its neighbours."""
    if "from_step" not in form.fields or not run.step:
        return None
    other_filters = read_filter_parameters(request, form, "from_step", "to_step")
    at = form.one_step
    step_by_direction = (
        {"older": at - 1, "newer": at + 1} if at is not None else {"older": run.step}
    )
    links = {
        direction: (step, "?" + urlencode({**other_filters, "from_step": step, "to_step": step}))
        for direction, step in step_by_direction.items()
        if 1 <= step <= run.step
    }
    return {
        "at": at,
        "last": run.step,
        "all": "?" + urlencode(other_filters),
        "others": other_filters.items(),
        **links,
    }


@require_safe
@login_required
def rollout(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the project of the rollout's run."""
    visible = Rollout.objects.filter(run__in=Run.objects.visible_to(request.user))
    beside = (
        "payload",
        "group__task__taskset",
        "group__seed__of__run",
        "run__project",
        "run__policy",
        "descent",
    )
    loaded = with_judgements(visible).select_related(*beside)
    shown_rollout: JudgedRollout = get_object_or_404(loaded, pk=pk)
    group = Rollout.objects.without_anchors().filter(group=shown_rollout.group)
    neighbours = group.filter(sample_index__gte=shown_rollout.sample_index - SIBLINGS // 2)
    siblings = with_judgements(neighbours).order_by("sample_index")[:SIBLINGS]
    [row] = build_rollout_rows([shown_rollout], request.user)
    is_open = row["is_open"]
    typed = typed_in(shown_rollout)
    steers = may_steer(request, shown_rollout.run)
    shading = (
        shade_tokens(shown_rollout, typed, _first_token(request))
        if is_open and hasattr(shown_rollout, "payload")
        else None
    )
    verdict = (
        verdict_on(shown_rollout, shown_rollout.learned)
        if is_open or row["station"] != "closed"
        else CLOSED
    )
    context = {
        "section": "runs",
        "run": shown_rollout.run,
        "rollout": shown_rollout,
        "row": row,
        "siblings": build_rollout_rows(siblings, request.user),
        "siblings_in_all": group.count(),
        "is_open": is_open,
        "shading": shading,
        "turns": build_transcript(shown_rollout, typed) if shown_rollout.turns else [],
        "verdict": verdict,
        "life": list_rollout_stages(shown_rollout, verdict, is_open),
        "ratings": _ratings(shown_rollout, None if is_open else request.user),
        "episodes": shown_rollout.episodes.select_related("environment").order_by("-fence")[
            :EPISODES
        ],
        "limits": _limits(shown_rollout),
        "rescored": _rescored_results(shown_rollout) if is_open else [],
        "may_rate": openly_ratable_by(request.user, [shown_rollout.pk]).exists(),
        "may_steer": steers,
        "may_make_gold": shown_rollout.state == Rollout.State.FINISHED and steers,
        "segments": list_segments(shown_rollout) if shading else [],
        "client_uuid": uuid.uuid4(),
        "address": request.build_absolute_uri(reverse("api:rollout", args=[shown_rollout.pk])),
        "sets": _testing_sets(shown_rollout) if steers else [],
    }
    return render(request, "dashboard/rollout.html", context)


def _ratings(rollout: Rollout, rater: User | None) -> list[tuple[Rating, str]]:
    """Return the newest ratings that show the rollout, all or one rater's, with their words."""
    about = Q(rollout=rollout) | Q(
        item__group=rollout.group_id, rollout=None, shown__contains=[rollout.pk]
    )
    ratings = Rating.objects.filter(about, is_withdrawn=False).select_related("rater")
    if rater is not None:
        ratings = ratings.filter(rater=rater)
    return [(rating, rating_in_words(rating)) for rating in ratings.order_by("-pk")[:RATINGS]]


@require_safe
@login_required
def rollout_tokens(request: SignedInRequest, pk: int) -> HttpResponse:
    """Members of the project who see the ratings of the run: the stored arrays, by page."""
    visible_rollouts = Rollout.objects.visible_to(request.user).select_related(
        "run__policy", "payload"
    )
    rollout = get_object_or_404(visible_rollouts, pk=pk)
    if not may_see_judgements(request, rollout.run):
        raise PermissionDenied("You rate this run blind, so tokens and logprobs are hidden.")
    if rollout.tokens_if_kept is None:
        raise Http404("the tokens of this rollout were deleted")
    return render(
        request,
        "dashboard/_rollout_raw.html",
        {"rollout": rollout, "raw": read_raw_arrays(rollout, _first_token(request))},
    )


def _first_token(request: SignedInRequest) -> int:
    """Return the first token to show. Raise Http404 for an invalid number."""
    first = request.GET.get("from", "0")
    if not (first.isascii() and first.isdigit() and len(first) < 8):
        raise Http404("from must be a token number")
    return int(first)


def _testing_sets(rollout: Rollout) -> list[str]:
    """Return the project's tasksets that the run does not use, for adding its task."""
    unused_tasksets = Taskset.objects.filter(
        project=rollout.run.project_id, grows=False, first=None
    ).exclude(pk__in=rollout.run.taskset_ids)
    return list(unused_tasksets.order_by("-pk").values_list("slug", flat=True)[:SETS_NAMED])


def _limits(rollout: Rollout) -> dict | None:
    """Return the limits of the rollout's answer, and whether its task sets them itself."""
    plan = rollout.run.settings
    meta = rollout.group.task.meta
    if rollout.origin != Rollout.Origin.POLICY or not plan.samples:
        return None
    try:
        task_limits = limits_in(meta)
        limits = read_limits(plan, meta)
    except BadLimits:  # the run is older than limits in tasks
        return None
    return {
        "tokens": limits.max_tokens,
        "is_own_tokens": limits.max_tokens == task_limits.max_tokens,
        "seconds": limits.time_s,
        "is_own_seconds": limits.time_s is not None and limits.time_s == task_limits.time_s,
    }


def _tabs(request: SignedInRequest, form: Filter) -> list[tuple[str, str]]:
    """Return each outcome with the URL of its list; other filters stay."""
    other_filters = read_filter_parameters(request, form, "fate")
    return [
        (name, "?" + urlencode({**({"fate": name} if name else {}), **other_filters}))
        for name in form.outcomes
    ]


def _rescored_results(rollout: Rollout) -> QuerySet[Rescored]:
    """Return the rollout's results in new sets of rewards, the newest first."""
    return (
        Rescored.objects.filter(rollout=rollout)
        .select_related("rescoring")
        .order_by("-rescoring")[:SETS]
    )
