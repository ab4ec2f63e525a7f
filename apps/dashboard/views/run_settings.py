"""All settings of a run: a form for those that may change, a preview of changes, the history."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from apps.accounts.reasons import MAX_REASON_LENGTH, NotAReason, check_reason
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.differences import Difference, list_field_differences
from apps.dashboard.paging import load_page
from apps.dashboard.settings_form import (
    SettingsForm,
    digest_settings,
    load_settings_form,
    putting_back,
    read_settings_form,
)
from apps.runs.config import ConfigError
from apps.runs.models import ChangedMeanwhile, Run, TrainStep
from apps.streaming.models import Event

CHANGES_A_PAGE = 20
ELSEWHERE = (
    "Someone else changed the configuration in the meantime. Review the differences, then apply"
    " them again."
)


if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    class _Dated(TypedDict):
        step: int | None

    DatedEvent = WithAnnotations[Event, _Dated]
else:  # a name for annotations: an event with the step before it
    DatedEvent = Event


@dataclass(frozen=True)
class Change:
    """A change of the configuration: its event, the step before it, and the differences."""

    event: Event
    step: int
    differences: tuple[Difference, ...]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def run_settings(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project read it; owners and researchers change it in two steps.

    The first step shows the changes, the second applies them.
    """
    if request.method == "POST":
        return _posted(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    form = load_settings_form(run)
    if (number := request.GET.get("put-back")) and may_steer(request, run):
        form = putting_back(run, get_object_or_404(_changes(run), pk=_id(number)))
        if not form.wrong and not form.differences:
            messages.info(request, "Nothing to revert: the settings already have these values.")
    return _page(request, run, form)


def _posted(request: SignedInRequest, run: Run) -> HttpResponse:
    form = read_settings_form(run, request.POST)
    if form.wrong:
        messages.error(request, "Nothing was changed. Fix the marked fields.")
        return _page(request, run, form, status=422)
    if not form.differences:
        messages.info(request, "No changes to the configuration.")
        return redirect("run-settings", run.project.slug, run.slug)
    if request.POST.get("apply") != form.digest:
        return _page(request, run, form)
    try:
        if form.seen != digest_settings(run):
            raise ChangedMeanwhile(run.slug)
        run.change_config(
            request.user,
            reason=check_reason(request.POST.get("reason", "")),
            unless_changed=True,
            **form.fields,
        )
    except ChangedMeanwhile:
        run.refresh_from_db()
        messages.error(request, ELSEWHERE)
        return _page(request, run, read_settings_form(run, request.POST), status=409)
    except NotAReason as error:
        messages.error(request, f"Nothing was changed: {error}")
        return _page(request, run, form, status=422)
    except ConfigError as error:  # only the database could tell, or the run has ended meanwhile
        for name, words in error.problems.items():
            messages.error(request, f"Nothing was changed: {name} {words}.")
        return _page(request, run, form, status=422)
    messages.success(
        request,
        "Changes saved. They apply from the next step and to everything sampled or rated from"
        " now on.",
    )
    return redirect("run-settings", run.project.slug, run.slug)


def _page(
    request: SignedInRequest, run: Run, form: SettingsForm, status: int = 200
) -> HttpResponse:
    page = load_page(_changes(run), request, size=CHANGES_A_PAGE)
    steers = may_steer(request, run)
    is_open = may_see_judgements(request, run)
    # Raters read on the People page what concerns them.
    parts = form.parts if steers else [part for part in form.parts if part.name != "people"]
    context = {
        "section": "runs",
        "run": run,
        "form": form,
        "parts": parts,
        "seen": digest_settings(run),
        "may_steer": steers,
        "has_ended": run.state in Run.ENDED,
        "may_delete": Run.objects.owned_by(request.user).filter(pk=run.pk).exists(),
        "page": page,
        "is_open": is_open,
        "changes": [_visible_change(event, steers, is_open) for event in page.rows],
        "reason": request.POST.get("reason", ""),
        "max_reason_length": MAX_REASON_LENGTH,
    }
    return render(request, "dashboard/run_settings.html", context, status=status)


def _changes(run: Run) -> QuerySet[DatedEvent]:
    """Return the events of changes, each with the step before it."""
    before = (
        TrainStep.objects.filter(run=run, committed_at__lte=OuterRef("at"))
        .order_by("-number")
        .values("number")[:1]
    )
    return run.topic.events.filter(kind="config_changed").annotate(step=Subquery(before))


def _visible_change(event: DatedEvent, steers: bool, is_open: bool) -> Change:
    """Return a change as the user may see it.

    Blind raters see only that there was one, because fields and reason may reveal ratings.
    """
    if not is_open:
        return Change(event, event.step or 0, ())
    differences = list_field_differences(event.payload["before"], event.payload["after"])
    visible = (
        difference
        for difference in differences
        if steers or not difference.address.startswith("people.")
    )
    return Change(event, event.step or 0, tuple(visible))


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Http404("put-back must be a change id")
    return int(text)
