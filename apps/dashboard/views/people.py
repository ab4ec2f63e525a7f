"""A run's settings about raters: the form that changes them, and a preview of the rating page."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_steer, seen_run, steered_run
from apps.dashboard.people_form import (
    PeopleForm,
    digest_people_section,
    load_people_form,
    placed,
    read_people_form,
)
from apps.dashboard.preview import preview_item
from apps.dashboard.settings_form import SAVE_AGAIN
from apps.feedback.forms import FORMS
from apps.feedback.norming import round_of
from apps.runs.config import ConfigError
from apps.runs.models import ChangedMeanwhile, Run


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def people(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project read their part; owners and researchers change it."""
    if request.method == "POST":
        return _save(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    form = load_people_form(run)
    if not may_steer(request, run):
        return render(request, "dashboard/people_facts.html", _context(request, run, form))
    return render(request, "dashboard/people.html", _context(request, run, form))


@require_POST
@login_required
def preview_people_form(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the raters' view if the form were saved.

    Nothing is written.
    """
    run = steered_run(request, project, slug)
    return render(
        request,
        "dashboard/_people_preview.html",
        {**_context(request, run, read_people_form(run, request.POST)), "is_update": True},
    )


def _save(request: SignedInRequest, run: Run) -> HttpResponse:
    form = read_people_form(run, request.POST)
    if form.seen != digest_people_section(run):
        return _refuse(request, run, form, SAVE_AGAIN, status=409)
    if form.plan is None:
        return _refuse(
            request, run, form, "Nothing was changed. Fix the marked fields.", status=422
        )
    try:
        run.change_config(
            request.user, unless_changed=True, people=form.plan.model_dump(mode="json")
        )
    except ChangedMeanwhile:
        run.refresh_from_db()
        return _refuse(request, run, form, SAVE_AGAIN, status=409)
    except ConfigError as error:  # the run ended, or was changed, between check and save
        return _refuse(request, run, form, "; ".join(placed(error.problems).values()), status=422)
    messages.success(request, "Saved. Open items keep their rating type.")
    return redirect("run-people", run.project.slug, run.slug)


def _refuse(
    request: SignedInRequest, run: Run, form: PeopleForm, words: str, status: int
) -> HttpResponse:
    messages.error(request, words)
    return render(request, "dashboard/people.html", _context(request, run, form), status=status)


def _context(request: SignedInRequest, run: Run, form: PeopleForm) -> dict:
    plan = form.plan or run.settings.people
    return {
        "section": "runs",
        "run": run,
        "form": form,
        "plan": plan,
        "seen": digest_people_section(run),
        "may_steer": may_steer(request, run),
        "has_ended": run.state in Run.ENDED,
        "preview": preview_item(request.user, run, plan),
        "is_outdated": form.plan is None,
        "is_changed": form.plan not in (None, run.settings.people),
        "form_words": FORMS[plan.form].summary,
        "norming": round_of(run) if may_steer(request, run) else None,
    }
