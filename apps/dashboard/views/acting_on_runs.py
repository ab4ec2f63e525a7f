"""Actions on runs chosen in the list, or on all that match its filter."""

from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from apps.accounts.requests import SignedInRequest
from apps.dashboard.comparing_runs import MAX_RUNS
from apps.dashboard.form_actions import posted_action, posted_flag
from apps.dashboard.run_search import RunFilter
from apps.dashboard.views.deleting_runs import confirm_deletion
from apps.dashboard.views.run_list import run_ids
from apps.runs import labelling
from apps.runs.models import NotPossible, Run

MAX_SELECTED = 100
DELETE = "delete"
NAMED = 3  # runs named in a message about those that were skipped


def _archive(runs: list[Run], request: SignedInRequest) -> str:
    return (
        f"{labelling.archive(runs, request.user)} archived. To see them, set the filter"
        " “Archive” to “Archived”."
    )


def _restore(runs: list[Run], request: SignedInRequest) -> str:
    return f"{labelling.restore(runs, request.user)} restored."


def _tag(runs: list[Run], request: SignedInRequest) -> str:
    return f"{labelling.tag(runs, _posted_tag(request), request.user)} tagged."


def _untag(runs: list[Run], request: SignedInRequest) -> str:
    return f"{labelling.untag(runs, _posted_tag(request), request.user)} untagged."


def _apply_to_each(
    act: Callable[..., None], past_action: str
) -> Callable[[list[Run], SignedInRequest], str]:
    """Return an action that changes each run separately and reports skipped runs with reasons."""

    def move(runs: list[Run], request: SignedInRequest) -> str:
        skipped = []
        for run in runs:
            try:
                act(run, by=request.user)
            except NotPossible as error:
                skipped.append(str(error))
        if len(skipped) == len(runs):
            raise NotPossible(_join_reasons(skipped))
        words = f"{len(runs) - len(skipped)} {past_action}."
        return f"{words} {len(skipped)} skipped: {_join_reasons(skipped)}." if skipped else words

    return move


def _join_reasons(reasons: Sequence[str]) -> str:
    """Join the first few reasons, and count the others."""
    more = len(reasons) - NAMED
    return "; ".join(reasons[:NAMED]) + (f"; and {more} more" if more > 0 else "")


ACTS: dict[str, Callable[[list[Run], SignedInRequest], str]] = {
    "start": _apply_to_each(Run.start, "started"),
    "pause": _apply_to_each(Run.pause, "paused"),
    "resume": _apply_to_each(Run.resume, "resumed"),
    "stop": _apply_to_each(Run.stop, "stopped"),
    "archive": _archive,
    "restore": _restore,
    "tag": _tag,
    "untag": _untag,
}


def _compare(addresses: list[str]) -> str:
    if not 0 < len(addresses) <= MAX_RUNS:
        raise ValueError(f"{len(addresses)} runs are selected. Select 1 to {MAX_RUNS} to compare.")
    return f"{reverse('compare')}?{urlencode({'runs': ','.join(addresses)}, safe='/,')}"


def _clone(addresses: list[str]) -> str:
    if len(addresses) != 1:
        raise ValueError(f"{len(addresses)} runs are selected. Select one to clone.")
    [address] = addresses
    query = urlencode({"project": address.partition("/")[0], "like": address}, safe="/")
    return f"{reverse('run-new')}?{query}"


# URLs of pages about chosen runs, which change nothing.
OPENS: dict[str, Callable[[list[str]], str]] = {"compare": _compare, "clone": _clone}


@require_POST
@login_required
def act_on_runs(request: SignedInRequest) -> HttpResponse:
    """Owners and researchers: act on the chosen runs of their projects, or on all that match.

    Archiving and tagging change all runs or none; starting, pausing, resuming and stopping skip
    runs whose state does not allow it. Stopping asks first, because it cannot be undone. Comparing
    and cloning is open to everybody who sees the runs. Deleting is open to owners, and asks first.
    """
    action = posted_action(request, (*OPENS, *ACTS, DELETE))
    if opens := OPENS.get(action):
        return _redirect_to_page(request, opens)
    try:
        runs = _ticked_runs(request)
        if not runs:
            raise ValueError("Select one or more runs first.")
        if action == "stop" and request.POST.get("count", "").strip() != str(len(runs)):
            return _confirm_stop(request, runs)
        if action == DELETE:
            return confirm_deletion(request, _deletable_runs(request, runs))
        messages.success(request, ACTS[action](runs, request))
    except (ValueError, NotPossible) as error:
        messages.error(request, f"Nothing was changed: {error}")
    return _back(request)


def _deletable_runs(request: SignedInRequest, runs: list[Run]) -> list[Run]:
    """Return the runs, which the user may delete. Raises PermissionDenied."""
    keys = {run.pk for run in runs}
    if Run.objects.owned_by(request.user).filter(pk__in=keys).distinct().count() < len(keys):
        raise PermissionDenied(
            "Only owners of a project can delete its runs. Deselect the runs of other projects."
        )
    return runs


def _confirm_stop(request: SignedInRequest, runs: list[Run]) -> HttpResponse:
    """Render the page that confirms stopping these runs; a wrong number gets an error there."""
    count = request.POST.get("count", "").strip()
    stoppable = [run for run in runs if run.state not in Run.ENDED]
    if not stoppable:
        raise NotPossible("the selected runs have ended already.")
    context = {
        "section": "runs",
        "runs": runs,
        "stoppable": stoppable,
        "query": request.POST.get("query", ""),
        "typed": count,
    }
    status = 422 if count else 200
    return render(request, "dashboard/runs_stop.html", context, status=status)


def _redirect_to_page(request: SignedInRequest, opens: Callable[[list[str]], str]) -> HttpResponse:
    """Redirect to a page about the chosen runs, or back to the list with the error."""
    try:
        chosen_runs = _chosen_runs(request, Run.objects.visible_to(request.user))
        return redirect(
            opens(
                [f"{run.project.slug}/{run.slug}" for run in chosen_runs.select_related("project")]
            )
        )
    except ValueError as error:
        messages.error(request, str(error))
        return _back(request)


def _back(request: SignedInRequest) -> HttpResponse:
    return redirect(f"{reverse('runs')}?{request.POST.get('query', '')}")


def _chosen_runs(request: SignedInRequest, runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return the ticked ones of these runs; with `all`, those that match the list's filter.

    Raises Http404 for a filter or an id that is invalid, ValueError if too many match.
    """
    if not posted_flag(request, "all"):
        return runs.filter(pk__in=run_ids(request.POST.getlist("run"))).distinct()
    form = RunFilter(QueryDict(request.POST.get("query", "")), request.user)
    if not form.is_valid():
        raise Http404("the list's filter is invalid")
    matching = form.narrow(runs, request.user).values_list("pk", flat=True)
    keys = set(matching[: MAX_SELECTED + 1])
    if len(keys) > MAX_SELECTED:
        raise ValueError(
            f"more than {MAX_SELECTED} runs match. Narrow the filter: at most {MAX_SELECTED} can be"
            " chosen at once."
        )
    return Run.objects.filter(pk__in=keys)


def _ticked_runs(request: SignedInRequest) -> list[Run]:
    """Return the chosen runs, which the user may steer.

    Raises Http404 for an invisible run, PermissionDenied for one that the user may not steer,
    ValueError for too many.
    """
    steered = Run.objects.steered_by(request.user)
    if posted_flag(request, "all"):
        keys = set(_chosen_runs(request, steered).values_list("pk", flat=True))
    else:
        keys = run_ids(request.POST.getlist("run"))
        if len(keys) > MAX_SELECTED:
            raise ValueError(f"{len(keys)} runs are selected. Select at most {MAX_SELECTED}.")
        if _chosen_runs(request, Run.objects.visible_to(request.user)).count() < len(keys):
            raise Http404("run not found")
    runs = list(steered.filter(pk__in=keys).select_related("project", "topic").distinct())
    if len(runs) < len(keys):
        raise PermissionDenied(
            "Only owners and researchers of a project can change its runs. Deselect the other runs."
        )
    return runs


def _posted_tag(request: SignedInRequest) -> list[str]:
    if words := labelling.tags_in(request.POST.get("words", "")):
        return words
    raise ValueError("enter a tag.")
