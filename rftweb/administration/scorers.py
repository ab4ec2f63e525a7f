"""What judges rollouts here: every scorer by name, with what it pays, read from its source without running it."""

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
from apps.rewards.scorers import names
from apps.runs.models import Run

LEARNED_SHOWN = 50


@require_safe
def scorers(request: HttpRequest) -> HttpResponse:
    """Staff who may look at runs."""
    if not request.user.has_perm("runs.view_run"):
        raise PermissionDenied("You may not look at runs.")
    context = {**admin.site.each_context(request), "title": "Scorers", "scorers": described(), "learned": learned()}
    return render(request, "admin/scorers.html", context)


def learned() -> list[dict]:
    """Scorers that runs made, of the newest such runs: by which name, in which project, and whether it can be used as it is."""
    made = Run.objects.filter(config__algorithm__name="reward_model").select_related("project").defer("config").order_by("-pk")
    return [
        {"name": f"{PREFIX}{run.slug}", "run": run, "is_ready": run.state == Run.State.COMPLETED} for run in made[:LEARNED_SHOWN]
    ]


@cache
def described() -> list[dict]:
    """Name, words and version of each. Some import large libraries: a page that only tells of them imports none."""
    return [_described(name) for name in names()]


def _described(name: str) -> dict:
    [folder] = package.__path__
    tree = ast.parse(Path(folder, f"{name}.py").read_text())
    told = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant)
    }
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    kind = "asks a language model" if "ask" in made else "whole groups" if "score_group" in made else "one rollout"
    words = (ast.get_docstring(tree) or "").strip().splitlines()
    return {"name": name, "words": words[0] if words else "", "version": told.get("VERSION", 1), "kind": kind}
