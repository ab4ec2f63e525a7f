"""A run's pipeline: its counts, the text that changes it, and a dry run on stored data."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.pipelines import (
    PipelineForm,
    catalogue,
    digest_pipeline,
    list_pipeline_stages,
    load_pipeline_form,
    load_quarantine,
    newest_cuts,
    newest_of_updates,
    newest_tasks,
    read_pipeline_form,
)
from apps.dashboard.settings_form import SAVE_AGAIN
from apps.pipelines.again import given_up, refine_again
from apps.pipelines.dry_run import dry_run
from apps.rollouts.excluded_tasks import release_from_quarantine
from apps.runs.config import ConfigError
from apps.runs.models import ChangedMeanwhile, NotPossible, Run


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def pipeline(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project read it; owners and researchers change it.

    Blind raters see no ratings.
    """
    if request.method == "POST":
        return _save(request, steered_run(request, project, slug))
    run = seen_run(request, project, slug)
    return _page(request, run, load_pipeline_form(run))


@require_POST
@login_required
def try_pipeline(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the effect of the text on the newest groups.

    Nothing is written.
    """
    run = steered_run(request, project, slug)
    form = _read(request, run)
    tried = None if form.pipeline is None else dry_run(run, form.pipeline)
    return render(
        request, "dashboard/_pipeline_tried.html", {"run": run, "form": form, "tried": tried}
    )


@require_POST
@login_required
def refine_given_up(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: let the refiner retry what an operator failed at."""
    run = steered_run(request, project, slug)
    try:
        count = refine_again(run, request.user)
    except NotPossible as error:
        messages.error(request, f"Nothing was changed: {error}.")
    else:
        messages.success(
            request, f"{count} group{'' if count == 1 else 's'} sent to the refiner again."
        )
    return redirect("run-pipeline", project, slug)


@require_POST
@login_required
def release_task(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: release a task from quarantine."""
    run = steered_run(request, project, slug)
    try:
        task = release_from_quarantine(run, pk, request.user)
    except NotPossible as error:
        messages.error(request, f"Nothing was changed: {error}.")
    else:
        messages.success(
            request,
            (
                f"Task {task.index:,} of {task.taskset.slug} can be sampled again. Its failures "
                "are reset."
            ),
        )
    return redirect("run-pipeline", project, slug)


def _save(request: SignedInRequest, run: Run) -> HttpResponse:
    form = _read(request, run)
    if form.seen != digest_pipeline(run):
        return _changed_meanwhile(request, run, form)
    if form.pipeline is None:
        return _page(request, run, form, status=422)
    try:
        pipeline = [choice.model_dump(mode="json") for choice in form.pipeline]
        run.change_config(request.user, unless_changed=True, pipeline=pipeline)
    except ChangedMeanwhile:
        run.refresh_from_db()
        return _changed_meanwhile(request, run, form)
    except ConfigError as error:  # the run ended, or was changed, between check and save
        return _page(
            request, run, PipelineForm(form.text, form.seen, None, error.problems), status=422
        )
    messages.success(
        request,
        ("Saved. The pipeline applies to everything sampled, scored and trained from now on."),
    )
    return redirect("run-pipeline", run.project.slug, run.slug)


def _changed_meanwhile(request: SignedInRequest, run: Run, form: PipelineForm) -> HttpResponse:
    messages.error(request, SAVE_AGAIN)
    return _page(
        request,
        run,
        PipelineForm(form.text, digest_pipeline(run), form.pipeline, form.problems),
        status=409,
    )


def _read(request: SignedInRequest, run: Run) -> PipelineForm:
    return read_pipeline_form(
        run, request.POST.get("pipeline", "").replace("\r\n", "\n"), request.POST.get("seen", "")
    )


def _page(
    request: SignedInRequest, run: Run, form: PipelineForm, status: int = 200
) -> HttpResponse:
    is_open = may_see_judgements(request, run)
    context = {
        "section": "runs",
        "run": run,
        "form": form,
        "may_steer": may_steer(request, run),
        "has_ended": run.state in Run.ENDED,
        "is_open": is_open,
        "stations": list_pipeline_stages(run),
        "cuts": newest_cuts(run) if is_open else [],
        "of_updates": newest_of_updates(run) if is_open else [],
        "tasks": newest_tasks(run) if is_open else [],
        "given_up": given_up(run).count() if is_open else 0,
        "catalogue": catalogue(),
        "quarantine": load_quarantine(run) if is_open else None,
        "refines": not run.settings.algorithm.learns_from_lessons,
    }
    return render(request, "dashboard/pipeline.html", context, status=status)
