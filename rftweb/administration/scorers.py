"""The page of scorers: each by name, with its reward scale, read from its source without import."""

import ast
from functools import cache
from pathlib import Path

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.rewards import scorers as package
from apps.rewards.learned import PREFIX
from apps.rewards.scorers import scorer_names
from apps.runs.models import Run

LEARNED_SHOWN = 50


@require_safe
def scorers(request: HttpRequest) -> HttpResponse:
    """Staff who may view runs."""
    if not request.user.has_perm("runs.view_run"):
        raise PermissionDenied("You may not look at runs.")
    context = {
        **admin.site.each_context(request),
        "title": "Scorers",
        "scorers": described(),
        "learned": list_learned_scorers(),
    }
    return render(request, "admin/scorers.html", context)


def list_learned_scorers() -> list[dict]:
    """Return the newest scorers that runs trained: name, project, and whether they are usable."""
    training_runs = (
        Run.objects.filter(config__algorithm__name="reward_model")
        .select_related("project")
        .defer("config")
        .order_by("-pk")
    )
    return [
        {"name": f"{PREFIX}{run.slug}", "run": run, "is_ready": run.state == Run.State.COMPLETED}
        for run in training_runs[:LEARNED_SHOWN]
    ]


@cache
def described() -> list[dict]:
    """Return name, description and version of each scorer.

    Some import large libraries: a page that only describes them imports none.
    """
    return [_describe_scorer(name) for name in scorer_names()]


def _describe_scorer(name: str) -> dict:
    if name not in package.built_in_scorers():
        return _described_plugin(package.find_scorer(name))
    [folder] = package.__path__
    tree = ast.parse(Path(folder, f"{name}.py").read_text())
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    function_names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    kind = (
        "asks a language model"
        if "ask" in function_names
        else "whole groups"
        if "score_group" in function_names
        else "one rollout"
    )
    words = (ast.get_docstring(tree) or "").strip().splitlines()
    return {
        "name": name,
        "words": words[0] if words else "",
        "version": constants.get("VERSION", 1),
        "kind": kind,
    }


def _described_plugin(scorer: package.Scorer) -> dict:
    kind = "whole groups" if scorer.of_group else "one rollout"
    return {
        "name": scorer.name,
        "words": scorer.summary,
        "version": scorer.version,
        "kind": f"{kind}, plugin",
    }
