"""Create a run: a form and its YAML, from a preset, from another run, or empty."""

from contextlib import suppress

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_steer, steered_run
from apps.dashboard.config_diff import list_differing_fields
from apps.dashboard.dry_start import DryStart, can_be_tried, load_dry_start, start_dry_start
from apps.dashboard.estimate import Estimate, estimate_run
from apps.dashboard.form_actions import posted_action
from apps.dashboard.people_time import estimate_people_time
from apps.dashboard.presets import choose_initial_values, choose_preset, lacking, presets
from apps.dashboard.run_edits import as_written
from apps.dashboard.run_form import RunForm, load_run_form, read_run_form
from apps.dashboard.run_names import free_slug, generated_slug, refuse_taken_slug, slug_problem
from apps.dashboard.run_summary import summarize_run
from apps.policies.models import Policy
from apps.rewards.unreadable_tasks import list_unreadable
from apps.runs.config import ConfigError, RunConfig
from apps.runs.models import NotPossible, Run
from apps.runs.naming import MAX_SLUG_LENGTH
from apps.runs.optimizer import usual_learning_rate
from apps.runs.parsing import keys_by_section
from apps.tasksets.models import Taskset

MAX_TITLE_LENGTH = 200
EARLIER_SHOWN = 50
HIGH_RATE = 5  # times the usual learning rate: the page warns above it
ACTIONS = ("create", "start", "try", "check")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_new_run(request: SignedInRequest) -> HttpResponse:
    """Owners and researchers: the form of a new run in `project`.

    It begins with a `preset`, with a `taskset` and a `policy` if they are named, or as a run `like`
    (project/slug), and is compared `against` another run.
    """
    if request.method == "POST":
        return _create(request)
    project = _project(request, request.GET)
    model_run = _run(request, request.GET.get("like", ""))
    if "like" in request.GET and model_run is None:
        raise Http404("run not found")
    taskset = _taskset(project, request.GET.get("taskset", ""))
    policy = _policy(project, request.GET.get("policy", ""))
    chosen = next(
        (preset for preset in presets() if preset.name == request.GET.get("preset")), None
    )
    chosen = chosen or choose_preset(taskset)
    config = (
        as_written(model_run.settings)
        if model_run
        else choose_initial_values(chosen, project, taskset, policy)
    )
    form = load_run_form(project, config, request.user)
    context = _context(request, project, form, request.GET)
    # A link to this page named them, so another preset keeps them.
    context |= {"named_taskset": taskset.slug if taskset else ""}
    context |= {"named_policy": policy.slug if policy else ""}
    if model_run:
        slug = free_slug(project, model_run.slug)
        context |= {"slug": slug, "title": model_run.title, "chosen": "", "lacking": ""}
    else:
        context |= {} if context["slug"] else _generated_names(project, form)
        context |= {"chosen": chosen.name, "lacking": lacking(chosen, config)}
    return _page(request, context)


@require_POST
@login_required
def check_new_run(request: SignedInRequest) -> HttpResponse:
    """Owners and researchers: the form with errors and an estimate; nothing is written."""
    project = _project(request, request.POST)
    return render(request, "dashboard/_run_new.html", _posted_form(request, project))


def _posted_form(request: SignedInRequest, project: Project) -> dict:
    """Return the posted form; a generated name follows what was changed."""
    form = read_run_form(project, request.POST, request.user)
    context = _context(request, project, form, request.POST)
    if context["slug"] == context["generated"]:
        context |= _generated_names(project, form)
    return context | {"slug_wrong": slug_problem(project, context["slug"])}


def _create(request: SignedInRequest) -> HttpResponse:
    project = _project(request, request.POST)
    # A button that sets a field back to its default creates nothing.
    action = "check" if "reset" in request.POST else posted_action(request, ACTIONS)
    if action == "check":
        return _page(request, _posted_form(request, project))
    form = read_run_form(project, request.POST, request.user)
    context = _context(request, project, form, request.POST)
    context["slug_wrong"] = slug_problem(project, context["slug"])
    if action == "try":
        return _try(request, project, form, context)
    if form.plan is None or context["slug_wrong"]:
        return _refuse(request, context, "Run not created. Fix the marked fields.")
    try:
        with transaction.atomic():
            slug = context["slug"]
            title = context["title"] or context["slug"]
            run = Run.create(
                project=project,
                slug=slug,
                title=title[:MAX_TITLE_LENGTH],
                plan=form.plan,
                owner=request.user,
            )
            if action == "start":
                run.start(by=request.user)
    except IntegrityError:
        return _refuse(
            request,
            {**context, "slug_wrong": refuse_taken_slug(project, context["slug"])},
            "Run not created: the name is already in use.",
        )
    except ConfigError as error:  # an object that it names was deleted meanwhile
        return _refuse(request, context, f"Run not created: {error}.")
    messages.success(
        request,
        "Run created." if run.state == Run.State.CREATED else "Run created and started.",
    )
    return redirect("run", project.slug, run.slug)


def _try(request: SignedInRequest, project: Project, form: RunForm, context: dict) -> HttpResponse:
    """Return the page with a dry start; one that is still going on is stopped."""
    if form.plan is None:
        return _refuse(request, context, "Nothing was tried. Fix the marked fields.")
    try:
        run = start_dry_start(project, form.plan, request.user)
    except ConfigError as error:
        return _refuse(request, context, f"Nothing was tried: {error}.")
    except IntegrityError:  # somebody else took the name of the evaluation in the same moment
        return _refuse(request, context, "Nothing was tried. Try again.")
    if context["tried"]:
        _stop(request, context["tried"].run)
    return _page(request, {**context, "tried": load_dry_start(run, request.user)})


def _stop(request: SignedInRequest, run: Run) -> None:
    """Stop the user's own dry start, unless it has ended."""
    if run.owner_id != request.user.pk or not may_steer(request, run):
        return
    with suppress(NotPossible):  # it has ended
        run.stop(by=request.user)


@require_safe
@login_required
def tried_now(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the replies of a dry start so far."""
    run = steered_run(request, project, slug)
    if not run.is_evaluation:
        raise Http404("the run is not a dry start")
    return render(
        request, "dashboard/_run_tried.html", {"tried": load_dry_start(run, request.user)}
    )


def _refuse(request: SignedInRequest, context: dict, words: str) -> HttpResponse:
    messages.error(request, words)
    return _page(request, context, status=422)


def _page(request: SignedInRequest, context: dict, status: int = 200) -> HttpResponse:
    context["keys"] = keys_by_section()
    return render(request, "dashboard/run_new.html", context, status=status)


def _context(request: SignedInRequest, project: Project, form: RunForm, posted: QueryDict) -> dict:
    against = _run(request, posted.get("against") or posted.get("like", ""))
    plan = form.plan
    policy = project.policies.filter(slug=plan.policy).first() if plan else None
    estimate = estimate_run(plan, policy) if plan and policy else None
    projects = Project.objects.run_by(request.user).current().order_by("slug")
    earlier = (
        Run.objects.visible_to(request.user).select_related("project").only("slug", "project__slug")
    )
    return {
        "section": "runs",
        "project": project,
        "projects": projects,
        "form": form,
        "presets": presets(),
        "slug": posted.get("slug", "").strip(),
        "title": posted.get("title", "").strip(),
        "generated": posted.get("generated", ""),
        "chosen": posted.get("preset", ""),
        "named_taskset": posted.get("named_taskset", ""),
        "named_policy": posted.get("named_policy", ""),
        "summary": summarize_run(plan) if plan else "",
        "usual_rate": _usual_rate(plan, policy) if plan and policy else None,
        "rounds_apart": _rounds_apart(plan, policy, estimate) if plan and policy else False,
        "unread": list(list_unreadable(plan, project)) if plan else [],
        "estimate": estimate,
        "people_time": estimate_people_time(plan, project) if plan else None,
        "can_try": plan is None or can_be_tried(plan),
        "tried": _visible_dry_start(request, posted.get("tried", "")),
        "against": against,
        "against_said": posted.get("against") or posted.get("like", ""),
        "differences": list_differing_fields([against.settings, plan]) if against and plan else [],
        "earlier": earlier[:EARLIER_SHOWN],
        "max_slug_length": MAX_SLUG_LENGTH,
        "max_title_length": MAX_TITLE_LENGTH,
    }


def _usual_rate(plan: RunConfig, policy: Policy) -> float | None:
    """Return the usual learning rate for the model; None if that of the run is not far above it."""
    usual = usual_learning_rate(policy.parameters, lora=plan.lora is not None)
    is_high = plan.steps > 0 and plan.optimizer.learning_rate > HIGH_RATE * usual
    return usual if is_high else None


def _rounds_apart(plan: RunConfig, policy: Policy, estimate: Estimate | None) -> bool:
    """Tell whether engine and trainer round apart and the loss does not correct for it."""
    on_gpu = estimate is not None and estimate.on_gpu
    is_at_risk = plan.samples and plan.steps > 0 and plan.algorithm.loss.name != "decoupled"
    return is_at_risk and plan.precision.rounds_apart(policy.parameters, on_gpu)


def _generated_names(project: Project, form: RunForm) -> dict[str, str]:
    """Return a name for what the form shows.

    `generated` comes back with the form: as long as the name is equal to it, nobody typed one.
    """
    slug = generated_slug(project, form.values)
    return {"slug": slug, "generated": slug}


def _project(request: SignedInRequest, posted: QueryDict) -> Project:
    """Return the project for the new run: the named one, else that of the newest taskset.

    Where no project has a taskset, it is the first by name.
    Raises Http404, PermissionDenied.
    """
    managed_projects = Project.objects.run_by(request.user).current().order_by("slug")
    if slug := posted.get("project"):
        project = get_object_or_404(Project.objects.visible_to(request.user), slug=slug)
        if project.archived_at:
            raise PermissionDenied("This project is archived. Its owners can restore it.")
        if not managed_projects.filter(pk=project.pk).exists():
            raise PermissionDenied("Only owners and researchers of this project can create runs.")
        return project
    newest = (
        Taskset.objects.filter(project__in=managed_projects).order_by("-pk").values("project")[:1]
    )
    default_project = managed_projects.filter(pk__in=newest).first() or managed_projects.first()
    if default_project is None:
        raise PermissionDenied(
            "Only owners and researchers of a project can create runs. Ask an owner for access."
        )
    return default_project


def _taskset(project: Project, slug: str) -> Taskset | None:
    """Return the named taskset of the project, None without a name. Raises Http404."""
    return get_object_or_404(project.tasksets, slug=slug) if slug else None


def _policy(project: Project, slug: str) -> Policy | None:
    """Return the named policy of the project, None without a name. Raises Http404."""
    return get_object_or_404(project.policies, slug=slug) if slug else None


def _visible_dry_start(request: SignedInRequest, address: str) -> DryStart | None:
    """Return the dry start that the page shows, if the user may see it."""
    run = _run(request, address)
    return load_dry_start(run, request.user) if run and run.is_evaluation else None


def _run(request: SignedInRequest, address: str) -> Run | None:
    """Return the run that `project/slug` names, if the user may see it."""
    project, _, slug = address.strip().partition("/")
    if not slug:
        return None
    return (
        Run.objects.visible_to(request.user)
        .select_related("project")
        .filter(project__slug=project, slug=slug)
        .first()
    )
