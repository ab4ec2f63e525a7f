"""Environments: the list, and one with its live episodes, recent results, and how to connect."""

import json

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.environments import (
    NEWEST,
    TURNS,
    describe_environments,
    newest_ended,
    share_of_best,
)
from apps.dashboard.paging import load_page
from apps.environments import library
from apps.environments.breaker import close_breaker
from apps.environments.models import FAILURES_ALLOWED, Environment, Episode, PlaySession
from apps.environments.openenv.sessions import living
from apps.runs.models import Run

ROWS = 25
LIVE_SHOWN = 12
ENDED_SHOWN = 20
RUNS_SHOWN = 10
SESSIONS_SHOWN = 10
FIGURED = {"newest": NEWEST, "turns": TURNS, "failures_allowed": FAILURES_ALLOWED}


@require_safe
@login_required
def environments(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the environments of their projects."""
    visible = Environment.objects.visible_to(request.user).select_related("project", "created_by")
    visible = visible.filter(project__archived_at=None)
    page = load_page(visible, request, size=ROWS)
    rows = [
        (status, share_of_best(status.environment, status.mean_reward))
        for status in describe_environments(page.rows, request.user)
    ]
    context = {
        "section": "environments",
        "page": page,
        "rows": rows,
        "library": {name: library.find(name) for name in library.names()},
        **FIGURED,
    }
    return render(request, "dashboard/environments.html", context)


@require_safe
@login_required
def show_environment(request: SignedInRequest, project: str, name: str) -> HttpResponse:
    """Members of the environment's project."""
    environment = seen_environment(request, project, name)
    return render(request, "dashboard/environment.html", _context(request, environment))


@require_safe
@login_required
def environment_now(request: SignedInRequest, project: str, name: str) -> HttpResponse:
    """Members of the environment's project: the polled part of its page."""
    return render(
        request,
        "dashboard/_environment_now.html",
        _context(request, seen_environment(request, project, name)),
    )


@require_POST
@login_required
def close_circuit_breaker(request: SignedInRequest, project: str, name: str) -> HttpResponse:
    """Owners and researchers of the project: close the circuit breaker of the environment.

    Runs may then open groups in it before the breaker closes by itself.
    """
    environment = seen_environment(request, project, name)
    if not _may_steer(request, environment):
        raise PermissionDenied(
            "Only owners and researchers of this project can close circuit breakers."
        )
    if close_breaker(environment, request.user):
        messages.success(
            request,
            f"The circuit breaker of {environment.name} is closed: runs open groups in it again.",
        )
    else:
        messages.info(request, f"The circuit breaker of {environment.name} was closed already.")
    return redirect("environment", project, name)


def seen_environment(request: SignedInRequest, project: str, name: str) -> Environment:
    """Return the environment if the user belongs to its project. Raise Http404."""
    visible = Environment.objects.visible_to(request.user).select_related("project", "created_by")
    return get_object_or_404(visible, project__slug=project, name=name)


def _may_steer(request: SignedInRequest, environment: Environment) -> bool:
    return Project.objects.run_by(request.user).filter(pk=environment.project_id).exists()


def _context(request: SignedInRequest, environment: Environment) -> dict:
    [now] = describe_environments([environment], request.user)
    live = (
        environment.episodes.open()
        .select_related("run__project", "client", "session__user")
        .order_by("-pk")[:LIVE_SHOWN]
    )
    schemas = [
        ("observation", environment.observation_schema),
        ("action", environment.action_schema),
    ]
    return {
        "section": "environments",
        "site": request.build_absolute_uri("/")[:-1],
        "schemas": [
            (what, json.dumps(schema, indent=2, ensure_ascii=False)) for what, schema in schemas
        ],
        "options": json.dumps(environment.options, indent=2, ensure_ascii=False)
        if environment.options
        else "",
        "environment": environment,
        "now": now,
        "live": list(live),
        "sessions": _sessions(environment),
        "ended": _ended_episodes(environment, now.earned),
        "mean_share": share_of_best(environment, now.mean_reward),
        "runs": _runs(environment),
        "may_steer": _may_steer(request, environment),
        **FIGURED,
    }


def _ended_episodes(environment: Environment, earned: dict[int, float]) -> list[dict]:
    """Return the newest ended episodes, with their rewards if the user may see them."""
    newest = {episode.pk: episode for episode in newest_ended([environment])[:ENDED_SHOWN]}
    rows = (
        Episode.objects.filter(pk__in=newest)
        .select_related("run__project", "session__user")
        .order_by("-pk")
    )
    return [
        {
            "episode": row,
            "earned": earned.get(row.pk),
            "share": share_of_best(environment, earned.get(row.pk)),
        }
        for row in rows
    ]


def _sessions(environment: Environment) -> list[PlaySession]:
    """Return the sessions of connected outside clients, the newest first."""
    return list(living(environment).select_related("user").order_by("-pk")[:SESSIONS_SHOWN])


def _runs(environment: Environment) -> list[Run]:
    runs = Run.objects.filter(
        project=environment.project_id, config__environment__name=environment.name
    )
    return list(runs.select_related("project").order_by("-pk")[:RUNS_SHOWN])
