"""What a run asks of people: the form that changes it, and beside it what a rater would see."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.dashboard.access import may_steer, seen_run, steered_run
from apps.dashboard.people_form import FORMS, PeopleForm, digest_of, form_of, placed, read
from apps.dashboard.preview import preview_of
from apps.dashboard.settings_form import SAVE_AGAIN
from apps.runs.config import ConfigError
from apps.runs.models import ChangedMeanwhile, Run


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def people(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project read what concerns them; owners and researchers change it."""
    if request.method == "POST":
        return _save(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    form = form_of(run)
    if not may_steer(request, run):
        return render(request, "dashboard/people_facts.html", _context(request, run, form))
    return render(request, "dashboard/people.html", _context(request, run, form))


@require_POST
@login_required
def preview(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: what a rater would see if the form were saved; nothing is written."""
    run = steered_run(request, project, slug)
    return render(request, "dashboard/_people_preview.html", {**_context(request, run, read(run, request.POST)), "is_update": True})


def _save(request: HttpRequest, run: Run) -> HttpResponse:
    form = read(run, request.POST)
    if form.seen != digest_of(run):
        return _refused(request, run, form, SAVE_AGAIN, status=409)
    if form.plan is None:
        return _refused(request, run, form, "Nothing was changed: see what is marked below.", status=422)
    try:
        run.change_config(request.user, unless_changed=True, people=form.plan.model_dump(mode="json"))
    except ChangedMeanwhile:
        run.refresh_from_db()
        return _refused(request, run, form, SAVE_AGAIN, status=409)
    except ConfigError as error:  # the run ended, or was changed, between the two looks
        return _refused(request, run, form, "; ".join(placed(error.problems).values()), status=422)
    messages.success(request, "Changed. Items that are open already keep the form they were asked in.")
    return redirect("run-people", run.project.slug, run.slug)


def _refused(request: HttpRequest, run: Run, form: PeopleForm, words: str, status: int) -> HttpResponse:
    messages.error(request, words)
    return render(request, "dashboard/people.html", _context(request, run, form), status=status)


def _context(request: HttpRequest, run: Run, form: PeopleForm) -> dict:
    plan = form.plan or run.settings.people
    return {
        "section": "runs", "tab": "people", "run": run, "form": form, "plan": plan, "seen": digest_of(run),
        "may_steer": may_steer(request, run), "has_ended": run.state in Run.ENDED, "preview": preview_of(request.user, run, plan),
        "is_outdated": form.plan is None, "is_changed": form.plan not in (None, run.settings.people),
        "form_words": FORMS[plan.form],
    }  # fmt: skip
