"""Weight versions: of all visible runs, of one run as a line, and one by itself."""

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard import version_line
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.paging import load_page
from apps.policies.as_gguf import KINDS
from apps.runs.blind_review import judged_openly
from apps.runs.models import ExportJob, Run, WeightVersion
from apps.runs.models.orders import ADAPTER, FOLDER, FORM_TITLES
from apps.runs.naming import free_name
from apps.runs.promoting import name_of_policy, why_no_branch
from apps.runs.weight_downloads import why_not_gguf

WHAT_FOR = {
    FOLDER: "safetensors, configuration, tokenizer and model card. For transformers, vLLM and TRL.",
    "gguf-f16": "16-bit, with a Modelfile. For llama.cpp, Ollama and LM Studio.",
    "gguf-q8_0": "About half the size, slightly less precise.",
}
ORDERS_SHOWN = 10
NEIGHBOURS = 12


def _versions(request: SignedInRequest) -> QuerySet[WeightVersion]:
    visible = WeightVersion.objects.filter(run__in=judged_openly(request.user))
    return visible.select_related("run__project", "parent").prefetch_related(
        "acknowledgements__worker"
    )


@require_safe
@login_required
def show_weights(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the versions of the runs of their projects."""
    trained = _versions(request).filter(run__is_evaluation=False, run__project__archived_at=None)
    return render(
        request,
        "dashboard/weights.html",
        {"section": "weights", "page": load_page(trained, request)},
    )


@require_safe
@login_required
def weights_of_run(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project; people who rate it blind get an explanation only."""
    run = seen_run(request, project, slug)
    page = load_page(_versions(request).filter(run=run), request)
    rows = version_line.build_version_rows(page.rows)
    context = {
        "section": "runs",
        "run": run,
        "page": page,
        "rows": rows,
        "drawings": version_line.draw_version_curves(rows),
        "is_open": may_see_judgements(request, run),
        "steers": may_steer(request, run),
        "branched_from": find_branched_version(run),
    }
    return render(request, "dashboard/weight_line.html", context)


@require_safe
@login_required
def version(request: SignedInRequest, project: str, slug: str, version: int) -> HttpResponse:
    """Members of the run's project who do not judge it blind."""
    run = seen_run(request, project, slug)
    if not may_see_judgements(request, run):
        return render(
            request,
            "dashboard/weight_line.html",
            {"section": "runs", "run": run, "is_open": False},
        )
    return render(request, "dashboard/weight_version.html", version_context(request, run, version))


@require_safe
@login_required
def manifest(request: SignedInRequest, project: str, slug: str, version: int) -> HttpResponse:
    """Members of the run's project who do not rate it blind: the manifest as JSON.

    404 if the folder is gone.
    """
    run = seen_run(request, project, slug)
    content = (
        version_line.read_version_content(get_version(run, version))
        if may_see_judgements(request, run)
        else "You rate this run blind, so its weight versions are hidden."
    )
    if isinstance(content, str):
        raise Http404(content)
    answer = HttpResponse(content.manifest.to_json(), "application/json")
    answer["Content-Disposition"] = f'attachment; filename="{run.slug}-v{version}-manifest.json"'
    return answer


@require_safe
@login_required
def version_now(request: SignedInRequest, project: str, slug: str, version: int) -> HttpResponse:
    """Owners and researchers of the project: the state of jobs of the version, polled."""
    run = steered_run(request, project, slug)
    model_version = get_version(run, version)
    orders = list_export_jobs(model_version)
    context = {
        "run": run,
        "version": model_version,
        "orders": orders,
        "is_busy": any(order.is_open for order in orders),
    }
    return render(request, "dashboard/_weight_orders.html", context)


def version_context(request: SignedInRequest, run: Run, number: int) -> dict:
    """Return the context of a version's page. Raise Http404."""
    version = get_version(run, number)
    content = version_line.read_version_content(version)
    steers = may_steer(request, run)
    orders = list_export_jobs(version) if steers else []
    line = run.weight_versions.filter(version__gte=max(0, number - NEIGHBOURS // 2)).order_by(
        "version"
    )[: NEIGHBOURS + 1]
    context = {
        "content": content if isinstance(content, version_line.Content) else None,
        "no_content": content if isinstance(content, str) else "",
        "way": version_line.list_publication_stages(version),
        "engines": version_line.list_acknowledgements(version),
        "origin": version_line.find_version_origin(version),
        "reward": version_line.mean_reward_while_newest(version),
        "bars": version_line.build_movement_bars(version.movement),
        "branches": list(version.branches.all()),
    }
    offered = {
        "orders": orders,
        "is_busy": any(job.is_open for job in orders),
        "no_branch": why_no_branch(run),
        "branch_slug": free_name(f"{run.slug[:42]}-from-v{number}", run.project.runs.all()),
        "policy_slug": free_name(name_of_policy(version), run.project.policies.all()),
        "is_stoppable": run.state not in Run.ENDED,
    }
    beside = {
        "section": "runs",
        "run": run,
        "version": version,
        "line": list(line),
        "steers": steers,
        "is_open": True,
    }
    return {**beside, **context, **offered, **list_export_formats(version)}


def list_export_formats(version: WeightVersion) -> dict:
    """Return the export formats of a version; empty if its folder is gone."""
    content = version_line.read_version_content(version)
    if isinstance(content, str):
        return {}
    is_adapter = content.manifest.base is not None
    why_not = why_not_gguf(version)
    forms = [_offered_form(name, why_not if name in KINDS else "") for name in (FOLDER, *KINDS)]
    return {
        "export_forms": forms,
        "push_forms": [*forms, _offered_form(ADAPTER)] if is_adapter else forms,
        "is_adapter": is_adapter,
        "has_token": bool(settings.HUB_TOKEN),
    }


def _offered_form(name: str, why_not: str = "") -> dict:
    choice = {"name": name, "title": FORM_TITLES[name], "why": WHAT_FOR.get(name, "")}
    return {**choice, "why_not": why_not}


def get_version(run: Run, number: int) -> WeightVersion:
    """Return the version of this number. Raise Http404."""
    version = get_object_or_404(run.weight_versions.select_related("parent"), version=number)
    version.run = run
    return version


def list_export_jobs(version: WeightVersion) -> list[ExportJob]:
    return list(version.orders.select_related("by", "policy", "run").order_by("-pk")[:ORDERS_SHOWN])


def find_branched_version(run: Run) -> WeightVersion | None:
    """Return the version that the run branched from, with its run; None for other runs."""
    if run.branched_from_id is None:
        return None
    return (
        WeightVersion.objects.select_related("run__project").filter(pk=run.branched_from_id).first()
    )
