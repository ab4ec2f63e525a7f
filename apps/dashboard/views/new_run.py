"""Making a run: a form and its YAML in step, from a preset, from another run, or from nothing."""

from itertools import count

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import Project
from apps.dashboard.config_diff import differences
from apps.dashboard.estimate import estimate_of
from apps.dashboard.form_actions import posted_action
from apps.dashboard.presets import begun, lacking, presets
from apps.dashboard.run_edits import as_written
from apps.dashboard.run_form import RunForm, form_of, read
from apps.rewards.unread import unread_of
from apps.runs.config import ConfigError
from apps.runs.models import Run

LONGEST_SLUG, LONGEST_TITLE = 50, 200
EARLIER_SHOWN = 50
TRIED_AT_ONCE = 100
ACTIONS = ("create", "start", "check")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new_run(request: HttpRequest) -> HttpResponse:
    """Owners and researchers: `project`, and to begin with a `preset` or a run `like` (project/slug); `against` another."""
    if request.method == "POST":
        return _create(request)
    project = _project(request, request.GET)
    like = _run(request, request.GET.get("like", ""))
    if "like" in request.GET and like is None:
        raise Http404("there is no such run")
    chosen = next((preset for preset in presets() if preset.name == request.GET.get("preset")), presets()[0])
    said = as_written(like.settings) if like else begun(chosen, project)
    form = form_of(project, said, request.user)
    names = {"slug": _free(project, like.slug), "title": like.title} if like else None
    context = _context(request, project, form, request.GET, names)
    context |= {"chosen": "" if like else chosen.name, "lacking": "" if like else lacking(chosen, said)}
    return render(request, "dashboard/run_new.html", context)


@require_POST
@login_required
def check_new_run(request: HttpRequest) -> HttpResponse:
    """Owners and researchers: the same form with what is wrong and what it would take; nothing is written."""
    project = _project(request, request.POST)
    form = read(project, request.POST, request.user)
    return render(request, "dashboard/_run_new.html", _context(request, project, form, request.POST))


def _create(request: HttpRequest) -> HttpResponse:
    project = _project(request, request.POST)
    action = posted_action(request, ACTIONS)
    form = read(project, request.POST, request.user)
    context = _context(request, project, form, request.POST)
    if action == "check":
        return render(request, "dashboard/run_new.html", context)
    if form.plan is None or context["slug_wrong"]:
        return _refused(request, context, "No run was made: see what is marked below.")
    try:
        with transaction.atomic():
            slug, title = context["slug"], context["title"] or context["slug"]
            run = Run.create(project=project, slug=slug, title=title[:LONGEST_TITLE], plan=form.plan, owner=request.user)
            if action == "start":
                run.start(by=request.user)
    except IntegrityError:
        return _refused(request, {**context, "slug_wrong": _taken(project, context["slug"])}, "No run was made: its name is taken.")
    except ConfigError as error:  # what it names went away meanwhile
        return _refused(request, context, f"No run was made: {error}.")
    messages.success(request, "The run is made." if run.state == Run.State.CREATED else "The run is made, and begins.")
    return redirect("run", project.slug, run.slug)


def _refused(request: HttpRequest, context: dict, words: str) -> HttpResponse:
    messages.error(request, words)
    return render(request, "dashboard/run_new.html", context, status=422)


def _context(request: HttpRequest, project: Project, form: RunForm, said: QueryDict, names: dict[str, str] | None = None) -> dict:
    names = names or {name: said.get(name, "").strip() for name in ("slug", "title")}
    against = _run(request, said.get("against") or said.get("like", ""))
    policy = project.policies.filter(slug=form.plan.policy).first() if form.plan else None
    projects = Project.objects.run_by(request.user).order_by("slug")
    earlier = Run.objects.visible_to(request.user).select_related("project").only("slug", "project__slug")
    return {
        "section": "runs", "project": project, "projects": projects, "form": form, "presets": presets(), **names,
        "chosen": said.get("preset", ""),
        "slug_wrong": "" if said is request.GET else _slug_wrong(project, names["slug"]),
        "unread": list(unread_of(form.plan, project)) if form.plan else [],
        "estimate": estimate_of(form.plan, policy) if policy else None,
        "against": against, "against_said": said.get("against") or said.get("like", ""),
        "differences": differences([against.settings, form.plan]) if against and form.plan else [],
        "earlier": earlier[:EARLIER_SHOWN], "longest_slug": LONGEST_SLUG, "longest_title": LONGEST_TITLE,
    }  # fmt: skip


def _project(request: HttpRequest, said: QueryDict) -> Project:
    """The project to make a run in: the one that is named, else the first. Raises Http404, PermissionDenied."""
    own = Project.objects.run_by(request.user).order_by("slug")
    if slug := said.get("project"):
        project = get_object_or_404(Project.objects.visible_to(request.user), slug=slug)
        if not own.filter(pk=project.pk).exists():
            raise PermissionDenied("Only owners and researchers of this project make runs in it.")
        return project
    if (project := own.first()) is None:
        raise PermissionDenied("Only owners and researchers of a project make runs; ask one of them.")
    return project


def _run(request: HttpRequest, address: str) -> Run | None:
    """The run that `project/slug` means, if this person may see it."""
    project, _, slug = address.strip().partition("/")
    return Run.objects.visible_to(request.user).select_related("project").filter(project__slug=project, slug=slug).first()


def _slug_wrong(project: Project, slug: str) -> str:
    try:
        validate_slug(slug)
    except ValidationError:
        return "name it with letters, digits, dashes and underscores" if slug else "give it a name"
    if len(slug) > LONGEST_SLUG:
        return f"has {len(slug)} characters; {LONGEST_SLUG} is the most"
    return _taken(project, slug) if project.runs.filter(slug=slug).exists() else ""


def _taken(project: Project, slug: str) -> str:
    return f"{project.slug} has a run {slug} already; {_free(project, slug)} is free"


def _free(project: Project, slug: str) -> str:
    """The slug with the lowest number behind it that no run of the project has; a query for each hundred that are taken."""
    stem = slug.rstrip("0123456789").rstrip("-") or slug
    stem = stem[: LONGEST_SLUG - 8]
    for first in count(2, TRIED_AT_ONCE):
        names = [f"{stem}-{n}" for n in range(first, first + TRIED_AT_ONCE)]
        used = set(project.runs.filter(slug__in=names).values_list("slug", flat=True))
        if free := [name for name in names if name not in used]:
            return free[0]
