"""Actions on rollouts chosen in the list, or on all that match its filter, with confirmation."""

from collections.abc import Callable, Sequence

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from apps.accounts.reasons import check_reason
from apps.accounts.requests import SignedInRequest
from apps.buffer.models import Experience
from apps.dashboard.access import steered_run
from apps.dashboard.form_actions import posted_action
from apps.dashboard.rollout_search import Filter
from apps.dashboard.text_search import search_ids
from apps.feedback import leaving_out, priority_requests
from apps.rewards.rescoring.asking import NothingToRescore, scorers_in, start_rescoring
from apps.rewards.rescoring.choosing import Chosen
from apps.rollouts.models import Group, Rollout
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run
from apps.runs.parsing import as_yaml

MAX_SELECTED = 1_000  # largest number of rollouts per action
REACH = 100_000  # rollouts scanned for them if no index matches the filter
DIGITS = 18


@require_POST
@login_required
def pick_from_project(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project.

    The first request shows what will be done to how many; one with `confirmed` does it.
    """
    run = steered_run(request, project, slug)
    verb = posted_action(request, ACTS, "verb")
    back_url = _back(request, run)
    picked = _picked_ids(request, run)
    if not picked:
        messages.error(request, "Nothing was changed. Select rollouts, or “All matching rollouts”.")
        return redirect(back_url)
    wrong = {}
    if request.POST.get("confirmed"):
        try:
            message, goes_to = ACTS[verb](request, run, picked)
            messages.success(request, message)
            return redirect(goes_to or back_url)
        except ConfigError as error:
            wrong = dict(error.problems)
        except (NotPossible, NothingToRescore, ValueError) as error:
            wrong = {"": f"{error}".rstrip(".").capitalize() + "."}
    context = {
        "section": "runs",
        "run": run,
        "verb": verb,
        "picked": picked,
        "query": request.POST.get("query", ""),
        "back": back_url,
        "counts": _counts(run, picked),
        "wrong": wrong,
        "may_steer": True,
        "limit": MAX_SELECTED,
        "is_cut": bool(request.POST.get("all")) and len(picked) == MAX_SELECTED,
        "reason": request.POST.get("reason", ""),
        "rewards": request.POST.get("rewards", _own_rewards(run)),
    }
    return render(request, "dashboard/picking.html", context, status=422 if wrong else 200)


def _back(request: SignedInRequest, run: Run) -> str:
    """Return the URL of the list as it was, or of the page that asked."""
    back_url = request.POST.get("back", "")
    if (
        back_url
        and url_has_allowed_host_and_scheme(back_url, allowed_hosts=None)
        and back_url.startswith("/")
    ):
        return back_url
    filters = request.POST.get("query", "")
    return reverse("rollouts", args=[run.project.slug, run.slug]) + (
        f"?{filters}" if filters else ""
    )


def _picked_ids(request: SignedInRequest, run: Run) -> list[int]:
    """Return the ids of the chosen rollouts of the run, at most MAX_SELECTED.

    A field has one id, or several separated by commas: Django reads no form of more than a thousand
    fields.
    """
    if request.POST.get("all") and not request.POST.get("confirmed"):
        return _all_that_fit(request, run)
    numbers = [text for field in request.POST.getlist("rollout") for text in field.split(",")]
    if len(numbers) > MAX_SELECTED or not all(
        text.isascii() and text.isdigit() and len(text) <= DIGITS for text in numbers
    ):
        raise Http404(f"rollout must be numbers, at most {MAX_SELECTED}")
    return sorted(
        run.rollouts.filter(pk__in=[int(text) for text in numbers]).values_list("pk", flat=True)
    )


def _all_that_fit(request: SignedInRequest, run: Run) -> list[int]:
    """Return the newest rollouts that match the list's filter."""
    form = Filter(QueryDict(request.POST.get("query", "")), is_open=True)
    if not form.is_valid():
        raise Http404("the list's filter is invalid")
    matching = form.narrow(run, run.rollouts.exclude(state=Rollout.State.SAMPLING))
    if form.sought:
        return search_ids(
            matching,
            form.sought,
            run,
            MAX_SELECTED,
            among=form.among(run),
            reach=REACH if form.reach else None,
        )[0]
    if form.reach:
        edge = next(
            iter(
                form.among(run)
                .order_by("run_id", "-pk")
                .values_list("pk", flat=True)[REACH - 1 : REACH]
            ),
            0,
        )
        matching = matching.filter(pk__gte=edge)
    return list(matching.order_by("-pk").values_list("pk", flat=True)[:MAX_SELECTED])


def _counts(run: Run, picked: Sequence[int]) -> dict[str, int]:
    """Return the number of groups of the chosen rollouts by state."""
    groups = set(run.rollouts.filter(pk__in=picked).values_list("group_id", flat=True))
    states = dict(
        Group.objects.filter(pk__in=groups).order_by().values_list("state").annotate(n=Count("pk"))
    )
    usual = Experience.objects.usual().filter(group__in=groups)
    ready = usual.filter(state=Experience.State.READY).values("group").distinct().count()
    trained_on = usual.filter(state__in=["claimed", "trained"]).values("group").distinct().count()
    return {
        "groups": len(groups),
        "open": sum(states.get(state, 0) for state in Group.OPEN),
        "ready": ready,
        "taken": trained_on,
        "waiting": states.get(Group.State.WAITING, 0),
        "closed": states.get(Group.State.ADMITTED, 0) + states.get("dropped", 0),
    }


def _groups(run: Run, picked: Sequence[int]) -> set[int]:
    return set(run.rollouts.filter(pk__in=picked).values_list("group_id", flat=True))


def _drop(request: SignedInRequest, run: Run, picked: Sequence[int]) -> tuple[str, str]:
    if request.POST.get("name", "").strip() != run.slug:
        raise ValueError(f"nothing was dropped. To confirm, type the run's name: {run.slug}")
    reason = check_reason(request.POST.get("reason", ""))
    outcome = leaving_out.drop_groups(run, _groups(run, picked), request.user, reason)
    already_trained = (
        f" {outcome.in_steps:,} were already trained on and are kept." if outcome.in_steps else ""
    )
    return (
        (
            f"{outcome.dropped:,} group{'' if outcome.dropped == 1 else 's'} will not be trained"
            f" on.{already_trained}"
        ),
        "",
    )


def _rescore(request: SignedInRequest, run: Run, picked: Sequence[int]) -> tuple[str, str]:
    chosen = Chosen.read({"groups": sorted(_groups(run, picked))})
    rescoring = start_rescoring(
        run, scorers_in(request.POST.get("rewards", "")), chosen, request.user
    )
    message = "Rescoring started. Completed steps don't change."
    return message, reverse("run-rescoring", args=[run.project.slug, run.slug, rescoring.pk])


def _ask(request: SignedInRequest, run: Run, picked: Sequence[int]) -> tuple[str, str]:
    outcome = priority_requests.request_priority(run, picked, request.user)
    parts = [
        (
            f"{outcome.moved:,} waiting group{'' if outcome.moved == 1 else 's'} moved to the front"
            if outcome.moved
            else ""
        ),
        (
            f"{outcome.opened:,} repl{'y' if outcome.opened == 1 else 'ies'} sent to raters again"
            if outcome.opened
            else ""
        ),
        f"{outcome.skipped:,} skipped" if outcome.skipped else "",
    ]
    return "; ".join(filter(None, parts)).capitalize() + ".", ""


def _own_rewards(run: Run) -> str:
    """Return the run's own scorers as YAML, without default values."""
    scorer_rows = [
        {"scorer": choice.scorer, **choice.model_dump(mode="json", exclude_defaults=True)}
        for choice in run.settings.rewards
    ]
    return as_yaml(scorer_rows) if scorer_rows else ""


ACTS: dict[str, Callable] = {"drop": _drop, "rescore": _rescore, "ask": _ask}
