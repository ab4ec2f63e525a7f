"""All knobs of a run: what may still be turned as a form, what would change before it does, and what was changed."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from apps.accounts.reasons import LONGEST_REASON, NotAReason, reason_of
from apps.dashboard.access import may_steer, seen_run, steered_run
from apps.dashboard.differences import Difference, differences
from apps.dashboard.paging import page_of
from apps.dashboard.settings_form import SettingsForm, digest_of, form_of, putting_back, read
from apps.runs.blindness import sees_judgements
from apps.runs.config import ConfigError
from apps.runs.models import ChangedMeanwhile, Run, TrainStep
from apps.streaming.models import Event

CHANGES_A_PAGE = 20
ELSEWHERE = "Somebody changed the configuration meanwhile. Look at the differences again, and apply them if they are still yours."


@dataclass(frozen=True)
class Change:
    """A change that was made: the event, the update it was made after, and what it changed."""

    event: Event
    step: int
    differences: tuple[Difference, ...]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def run_settings(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project read it; owners and researchers change it, in two steps: look, and apply."""
    if request.method == "POST":
        return _posted(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    form = form_of(run)
    if (number := request.GET.get("put-back")) and may_steer(request, run):
        form = putting_back(run, get_object_or_404(_changes(run), pk=_id(number)))
        if not form.wrong and not form.differences:
            messages.info(request, "Nothing to put back: all of it stands as it did before that change.")
    return _page(request, run, form)


def _posted(request: HttpRequest, run: Run) -> HttpResponse:
    form = read(run, request.POST)
    if form.wrong:
        messages.error(request, "Nothing was changed: see what is marked below.")
        return _page(request, run, form, status=422)
    if not form.differences:
        messages.info(request, "Nothing differs from the configuration as it stands.")
        return redirect("run-settings", run.project.slug, run.slug)
    if request.POST.get("apply") != form.digest:
        return _page(request, run, form)
    try:
        if form.seen != digest_of(run):
            raise ChangedMeanwhile(run.slug)
        run.change_config(request.user, reason=reason_of(request.POST.get("reason", "")), unless_changed=True, **form.fields)
    except ChangedMeanwhile:
        run.refresh_from_db()
        messages.error(request, ELSEWHERE)
        return _page(request, run, read(run, request.POST), status=409)
    except NotAReason as error:
        messages.error(request, f"Nothing was changed: {error}")
        return _page(request, run, form, status=422)
    except ConfigError as error:  # what rows alone know, or the run has ended meanwhile
        for name, words in error.problems.items():
            messages.error(request, f"Nothing was changed: {name} {words}.")
        return _page(request, run, form, status=422)
    messages.success(request, "Changed. It holds from the next update, and for what is sampled and asked from now on.")
    return redirect("run-settings", run.project.slug, run.slug)


def _page(request: HttpRequest, run: Run, form: SettingsForm, status: int = 200) -> HttpResponse:
    page = page_of(_changes(run), request, size=CHANGES_A_PAGE)
    steers, is_open = may_steer(request, run), sees_judgements(request.user, run)
    # Who rates reads on the People page what concerns a rater.
    parts = form.parts if steers else [part for part in form.parts if part.name != "people"]
    context = {
        "section": "runs", "run": run, "form": form, "parts": parts, "seen": digest_of(run), "may_steer": steers,
        "has_ended": run.state in Run.ENDED, "page": page, "is_open": is_open,
        "changes": [_told(event, steers, is_open) for event in page.rows],
        "reason": request.POST.get("reason", ""), "longest_reason": LONGEST_REASON,
    }  # fmt: skip
    return render(request, "dashboard/run_settings.html", context, status=status)


def _changes(run: Run) -> QuerySet[Event]:
    """With the update after which each was made."""
    before = TrainStep.objects.filter(run=run, committed_at__lte=OuterRef("at")).order_by("-number").values("number")[:1]
    return run.topic.events.filter(kind="config_changed").annotate(step=Subquery(before))


def _told(event: Event, steers: bool, is_open: bool) -> Change:
    """For who judges the run blind, that there was one: what was turned, and why, may say how replies were judged."""
    if not is_open:
        return Change(event, event.step or 0, ())
    found = differences(event.payload["before"], event.payload["after"])
    shown = (one for one in found if steers or not one.address.startswith("people."))
    return Change(event, event.step or 0, tuple(shown))


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Http404("put-back must be the id of a change")
    return int(text)
