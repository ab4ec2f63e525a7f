"""Rescoring: a form that requests a new set of rewards, and a page that compares it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.paging import Page, load_page
from apps.dashboard.rescored import compare_rescoring, groups_that
from apps.feedback.models import Suspicion, SuspicionAction
from apps.feedback.suspicions.acting import list_evidence_groups, record_response
from apps.lineage.replaying.creating import unfit, why_not_replayable
from apps.rewards import scorers
from apps.rewards.hacking import TITLES
from apps.rewards.models import Rescored, RescoredGroup, Rescoring
from apps.rewards.rescoring.asking import NothingToRescore, scorers_in, start_rescoring
from apps.rewards.rescoring.choosing import Chosen
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run
from apps.runs.parsing import as_yaml

SETS_SHOWN = 20
ROLLOUTS_OF_A_GROUP = 16  # shown
DOMAINS_OFFERED = 50
MAX_DIGITS = 18  # longest id in the URL
FIELDS = ("from_step", "to_step", "domain", "scorer", "low", "high", "limit")
# Views in the URL: the largest changes, those with one outcome, or groups.
FATES = {
    "higher": "higher",
    "lower": "lower",
    "lost": "no longer a reward",
    "gained": "new reward",
}
OF_GROUPS = {"best": "different best", "appears": "signal gained", "vanishes": "signal lost"}


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def rescorings(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: list the run's rescorings, or start one."""
    run = steered_run(request, project, slug)
    problems: Mapping[str, str] = {}
    posted = request.POST if request.method == "POST" else request.GET
    suspicion = _suspicion(run, posted.get("suspicion", ""))
    if request.method == "POST":
        try:
            values = {name: text for name in FIELDS if (text := posted.get(name, "").strip())}
            chosen = Chosen.read(
                values | ({"groups": sorted(list_evidence_groups(suspicion))} if suspicion else {})
            )
            rescoring = _start_rescoring(request, run, chosen, suspicion)
            return redirect("run-rescoring", project, slug, rescoring.pk)
        except ConfigError as error:
            problems = error.problems
        except NothingToRescore as nothing:
            problems = {"filter": f"{nothing}."}
    page = load_page(run.rescorings.select_related("by"), request, size=SETS_SHOWN)
    context = {
        "section": "runs",
        "run": run,
        "page": page,
        "sets": [(rescoring, Chosen.read(rescoring.chosen).words) for rescoring in page.rows],
        "fields": _fields(run, posted, problems),
        "rewards": posted.get("rewards", _scorers_as_yaml(run)),
        "problems": _of_rewards(problems),
        "wrong": problems.get("filter", ""),
        "is_possible": not run.settings.algorithm.learns_from_lessons,
        "scorers": scorers.scorer_names(),
        "suspicion": suspicion,
        "title": TITLES.get(suspicion.kind) if suspicion else "",
    }
    return render(request, "dashboard/rescorings.html", context, status=422 if problems else 200)


@require_safe
@login_required
def comparison(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the effects of the new rewards."""
    return render(request, "dashboard/rescoring.html", _context(request, project, slug, pk))


@require_safe
@login_required
def comparison_now(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the polled part of the page."""
    return render(request, "dashboard/_rescoring_now.html", _context(request, project, slug, pk))


@require_POST
@login_required
def stop_rescoring(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: stop the rescoring; rewards so far stay."""
    run = steered_run(request, project, slug)
    try:
        get_object_or_404(run.rescorings, pk=pk).stop(by=request.user)
    except NotPossible as error:
        messages.error(request, f"Not stopped: {error}.")
    return redirect("run-rescoring", project, slug, pk)


def _context(request: SignedInRequest, project: str, slug: str, pk: int) -> dict:
    run = steered_run(request, project, slug)
    rescoring = get_object_or_404(run.rescorings.select_related("by"), pk=pk)
    rescoring.run = run
    show = request.GET.get("show", "")
    compared = compare_rescoring(rescoring)
    of_groups = show in OF_GROUPS
    page = _groups(request, rescoring, show) if of_groups else _rollouts(request, rescoring, show)
    return {
        "section": "runs",
        "run": run,
        "rescoring": rescoring,
        "chosen": Chosen.read(rescoring.chosen).words,
        "comparison": compared,
        "page": page,
        "rows": _with_rollouts(page, rescoring) if of_groups else page.rows,
        "show": show,
        "of_groups": of_groups,
        "tabs": [
            ("", "changed", compared.changed),
            *((name, words, compared.fates[name]) for name, words in FATES.items()),
            *((name, words, compared.groups[name]) for name, words in OF_GROUPS.items()),
        ],
        "why_not": why_not_replayable(run) or unfit(rescoring),
        "query": request.GET.urlencode(),
    }


def _rollouts(request: SignedInRequest, rescoring: Rescoring, show: str) -> Page:
    if show and show not in FATES:
        raise Http404(show)
    rows = Rescored.objects.filter(rescoring=rescoring).select_related("rollout__group__task")
    return load_page(
        rows.filter(fate=show) if show else rows.filter(size__gt=0), request, by="size"
    )


def _groups(request: SignedInRequest, rescoring: Rescoring, show: str) -> Page[RescoredGroup]:
    judged = RescoredGroup.objects.filter(
        groups_that(rescoring)[show], rescoring=rescoring, done_at__isnull=False
    )
    return load_page(judged.select_related("group__task"), request)


def _with_rollouts(
    page: Page[RescoredGroup], rescoring: Rescoring
) -> list[tuple[RescoredGroup, Sequence[Rescored]]]:
    """Return each group with its rescored rollouts; one query."""
    groups = [item.group_id for item in page.rows]
    rows = Rescored.objects.filter(rescoring=rescoring, rollout__group__in=groups).select_related(
        "rollout"
    )
    rows_by_group = defaultdict(list)
    for row in rows.order_by("rollout__sample_index"):
        rows_by_group[row.rollout.group_id].append(row)
    return [(item, rows_by_group[item.group_id][:ROLLOUTS_OF_A_GROUP]) for item in page.rows]


def _suspicion(run: Run, number: str) -> Suspicion | None:
    """Return the suspicion whose groups are to be rescored, if the page was opened for one."""
    if number and not (number.isascii() and number.isdecimal() and len(number) <= MAX_DIGITS):
        raise Http404(number)
    return get_object_or_404(run.suspicions, pk=number) if number else None


@transaction.atomic
def _start_rescoring(
    request: SignedInRequest, run: Run, chosen: Chosen, suspicion: Suspicion | None
) -> Rescoring:
    rescoring = start_rescoring(
        run, scorers_in(request.POST.get("rewards", "")), chosen, request.user
    )
    if suspicion:
        record_response(
            suspicion, SuspicionAction.Verb.RESCORED, request.user, details={"set": rescoring.pk}
        )
    return rescoring


def _scorers_as_yaml(run: Run) -> str:
    """Return the run's own scorers as YAML, without default values."""
    scorer_rows = [
        {"scorer": choice.scorer, **choice.model_dump(mode="json", exclude_defaults=True)}
        for choice in run.settings.rewards
    ]
    return as_yaml(scorer_rows) if scorer_rows else ""


def _fields(run: Run, values: Mapping[str, str], problems: Mapping[str, str]) -> dict[str, dict]:
    """Return the values, errors and choices of the filter's fields."""
    defaults = {"limit": Chosen().limit}
    fields: dict[str, dict[str, Any]] = {
        name: {"value": values.get(name, defaults.get(name, "")), "wrong": problems.get(name, "")}
        for name in FIELDS
    }
    domains = (
        run.tasks.exclude(domain="").order_by("domain").values_list("domain", flat=True).distinct()
    )
    fields["domain"]["choices"] = list(domains[:DOMAINS_OFFERED])
    fields["scorer"]["choices"] = [choice.scorer for choice in run.settings.rewards]
    return fields


def _of_rewards(problems: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the errors of the scorers: those that belong to no field of the filter."""
    return [(field, why) for field, why in problems.items() if field not in (*FIELDS, "filter")]
