"""Weight versions: of all runs one does not judge blind, of one run as a line, and one by itself."""

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.dashboard import weight_line
from apps.dashboard.access import may_steer, seen_run, steered_run
from apps.dashboard.paging import page_of
from apps.policies.as_gguf import KINDS
from apps.runs.blindness import judged_openly, sees_judgements
from apps.runs.models import Run, WeightOrder, WeightVersion
from apps.runs.models.orders import ADAPTER, FOLDER, FORM_TITLES
from apps.runs.naming import free_name
from apps.runs.promoting import name_of_policy, why_no_branch
from apps.runs.taking_away import why_not_gguf

WHAT_FOR = {
    FOLDER: "safetensors, configuration, tokenizer and a model card: for transformers, vLLM, TRL.",
    "gguf-f16": "16-bit, with a Modelfile: for llama.cpp, Ollama, LM Studio.",
    "gguf-q8_0": "About half as large, a little less exact.",
}
ORDERS_SHOWN = 10
NEIGHBOURS = 12


def _versions(request: HttpRequest) -> QuerySet[WeightVersion]:
    visible = WeightVersion.objects.filter(run__in=judged_openly(request.user))
    return visible.select_related("run__project", "parent").prefetch_related("acknowledgements__worker")


@require_safe
@login_required
def weights(request: HttpRequest) -> HttpResponse:
    """Everybody signed in: the versions of the runs of their projects."""
    trained = _versions(request).filter(run__is_evaluation=False)
    return render(request, "dashboard/weights.html", {"section": "weights", "page": page_of(trained, request)})


@require_safe
@login_required
def weights_of_run(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project. Who judges it blind is told that, and nothing else."""
    run = seen_run(request, project, slug)
    page = page_of(_versions(request).filter(run=run), request)
    rows = weight_line.line_of(page.rows)
    context = {
        "section": "weights", "run": run, "page": page, "rows": rows, "drawings": weight_line.drawings_of(rows),
        "is_open": sees_judgements(request.user, run), "steers": may_steer(request, run), "branched_from": parent_of(run),
    }  # fmt: skip
    return render(request, "dashboard/weight_line.html", context)


@require_safe
@login_required
def version(request: HttpRequest, project: str, slug: str, version: int) -> HttpResponse:
    """Members of the run's project who do not judge it blind."""
    run = seen_run(request, project, slug)
    if not sees_judgements(request.user, run):
        return render(request, "dashboard/weight_line.html", {"section": "weights", "run": run, "is_open": False})
    return render(request, "dashboard/weight_version.html", about(request, run, version))


@require_safe
@login_required
def manifest(request: HttpRequest, project: str, slug: str, version: int) -> HttpResponse:
    """Members of the run's project who do not judge it blind: what its folder holds, as JSON, while that is there."""
    run = seen_run(request, project, slug)
    content = (
        weight_line.content_of(version_of(run, version)) if sees_judgements(request.user, run) else "You judge this run blind."
    )
    if isinstance(content, str):
        raise Http404(content)
    answer = HttpResponse(content.manifest.to_json(), "application/json")
    answer["Content-Disposition"] = f'attachment; filename="{run.slug}-v{version}-manifest.json"'
    return answer


@require_safe
@login_required
def version_now(request: HttpRequest, project: str, slug: str, version: int) -> HttpResponse:
    """Owners and researchers of the project: what was ordered of the version, which moves."""
    run = steered_run(request, project, slug)
    found = version_of(run, version)
    orders = orders_of(found)
    context = {"run": run, "version": found, "orders": orders, "is_busy": any(order.is_open for order in orders)}
    return render(request, "dashboard/_weight_orders.html", context)


def about(request: HttpRequest, run: Run, number: int) -> dict:
    """All that the page of a version tells. Raises Http404."""
    found = version_of(run, number)
    content = weight_line.content_of(found)
    steers = may_steer(request, run)
    orders = orders_of(found) if steers else []
    line = run.weight_versions.filter(version__gte=max(0, number - NEIGHBOURS // 2)).order_by("version")[: NEIGHBOURS + 1]
    told = {
        "content": content if isinstance(content, weight_line.Content) else None,
        "no_content": content if isinstance(content, str) else "", "way": weight_line.way_of(found),
        "engines": weight_line.engines_of(found), "origin": weight_line.origin_of(found), "reward": weight_line.reward_of(found),
        "bars": weight_line.bars_of(found.movement), "branches": list(found.branches.all()),
    }  # fmt: skip
    offered = {
        "orders": orders, "is_busy": any(one.is_open for one in orders), "no_branch": why_no_branch(run),
        "branch_slug": free_name(f"{run.slug[:42]}-from-v{number}", run.project.runs),
        "policy_slug": free_name(name_of_policy(found), run.project.policies),
        "is_stoppable": run.state not in Run.ENDED,
    }  # fmt: skip
    beside = {"section": "weights", "run": run, "version": found, "line": list(line), "steers": steers, "is_open": True}
    return {**beside, **told, **offered, **exports_of(found)}


def exports_of(version: WeightVersion) -> dict:
    """What its exports can be; none where its folder is gone."""
    content = weight_line.content_of(version)
    if isinstance(content, str):
        return {}
    is_adapter = content.manifest.base is not None
    why_not = why_not_gguf(version)
    forms = [_offered(name, why_not if name in KINDS else "") for name in (FOLDER, *KINDS)]
    return {
        "export_forms": forms,
        "push_forms": [*forms, _offered(ADAPTER)] if is_adapter else forms,
        "is_adapter": is_adapter,
        "has_token": bool(settings.HUB_TOKEN),
    }


def _offered(name: str, why_not: str = "") -> dict:
    told = {"name": name, "title": FORM_TITLES[name], "why": WHAT_FOR.get(name, "")}
    return {**told, "why_not": why_not}


def version_of(run: Run, number: int) -> WeightVersion:
    """Raises Http404."""
    found = get_object_or_404(run.weight_versions.select_related("parent"), version=number)
    found.run = run
    return found


def orders_of(version: WeightVersion) -> list[WeightOrder]:
    return list(version.orders.select_related("by", "policy", "run").order_by("-pk")[:ORDERS_SHOWN])


def parent_of(run: Run) -> WeightVersion | None:
    """The version that it went on from, with its run; None of a run that is no branch."""
    if run.branched_from_id is None:
        return None
    return WeightVersion.objects.select_related("run__project").filter(pk=run.branched_from_id).first()
