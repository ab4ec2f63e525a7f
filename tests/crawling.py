"""Every address that answers GET, filled in for one run: tests that hold of every page walk along it.

A new route is walked along at once; one whose `<…>` nothing here stands for fails, until it is said what does.
"""

import re
from collections.abc import Iterator

from django.urls import URLPattern, get_resolver

from apps.dashboard.views.exports import KINDS
from apps.environments.models import Environment, Episode
from apps.feedback.models import Arena, Item, RaterModel, Rating, Suspicion
from apps.rollouts.models import Rollout
from apps.runs.models import Run, Worker
from apps.tasksets.models import Picture

# Not pages: machines' addresses, what signs in and out, and the parts that other tests walk along.
NOT_WALKED = (
    "admin/",
    "accounts/logout/",
    "healthz",
    "readyz",
    "favicon.ico",
    "api/v1/schema/",
    "weight-files/",  # signed requests of other machines
)


def routes(patterns: list | None = None, prefix: str = "") -> Iterator[str]:
    """Every route of the URL configuration, as it is spelled there."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from routes(pattern.url_patterns, route)


def addresses(run: Run, rollouts: list[int]) -> list[str]:
    """Paths with their queries. `rollouts`: those that are opened one by one; the first stands for any."""
    found = []
    for route in routes():
        if route.startswith(NOT_WALKED):
            continue
        for filled in _filled(route, run, rollouts):
            assert "<" not in filled, f"say in tests/crawling.py what the parts of {route} stand for"
            found.append("/" + filled)
    asked = "&".join(f"rollout={pk}" for pk in rollouts)
    return [*found, f"/live/?run={run.pk}", f"/live/cards/?{asked}", f"/live/chips/?{asked}", f"/rate/?run={run.pk}"]


def _filled(route: str, run: Run, rollouts: list[int]) -> list[str]:
    slug = run.taskset.slug if route.startswith("tasksets/") else run.slug
    slug = run.policy.slug if route.startswith("policies/") else slug
    item = Item.objects.filter(run=run).values_list("pk", flat=True).first() or 0
    rating = Rating.objects.filter(run=run).values_list("pk", flat=True).first() or 0
    environment = Environment.objects.filter(project=run.project).values_list("name", flat=True).first() or "none"
    episode = Episode.objects.filter(run=run).values_list("pk", flat=True).first() or 0
    worker = Worker.objects.values_list("pk", flat=True).first() or 0
    rescoring = run.rescorings.values_list("pk", flat=True).first() or 0
    importing = run.project.taskset_imports.values_list("pk", flat=True).first() or 0
    suspicion = Suspicion.objects.filter(run=run).values_list("pk", flat=True).first() or 0
    model = RaterModel.objects.filter(run=run).values_list("number", flat=True).first() or 0
    groups = list(Rollout.objects.filter(pk__in=rollouts).values_list("group_id", flat=True))
    picture = Picture.objects.filter(project=run.project).values_list("sha256", flat=True).first() or "0" * 64
    route = route.replace("<slug:shape>.<slug:format>", "long.csv")
    route = route.replace("exports/evaluations.<slug:format>", "exports/evaluations.csv")
    parts = {
        "<slug:name>": [environment],
        "<slug:project>": [run.project.slug], "<slug:slug>": [slug], "<slug:part>": ["now", "beside", "newest"],
        "<slug:verb>": ["pause"], "<slug:kind>": ["stop"], "<int:run>": [run.pk], "<int:slot>": [0], "<int:rollout>": rollouts,
        "<int:version>": [run.published_version], "<int:number>": [model], "<slug:what>": list(KINDS), "<slug:format>": ["jsonl"],
        "<str:model>": [run.policy.slug], "<sha256:sha256>": [picture],
        "<int:rescoring>": [rescoring],
    }  # fmt: skip
    # What a bare number means, by what stands before it; decisions, items and tokens that are only acted on need none.
    numbers = {
        "rollouts/": rollouts,
        "ratings/": [rating],
        "api/v1/runs/": [run.pk],
        "api/v1/rating-slots/": [0],
        "adjudicate/": [item],
        "episodes/": [episode],
        "gold/": [item],
        "rescorings/": [rescoring],
        "imports/": [importing],
        "suspicions/": [suspicion],
        "workers/": [worker],
        "logs/": [run.log_lines.values_list("pk", flat=True).first() or 0],
        "compare/": [run.comparisons.values_list("pk", flat=True).first() or 0],
        "weights/exports/": [0],
        "chat/": [0],
        "groups/": groups,
    }
    arena = Arena.objects.filter(project=run.project).values_list("pk", flat=True).first() or 0
    numbers |= {"rate/arenas/": [arena], "arenas/<slug:project>/": [arena]}
    numbers |= {"settings/tokens/": [0], "pipeline/release/": [0], "alerts/": [0], "alerts/channels/<slug:project>/": [0]}
    before = route.partition("<int:pk>")[0]
    parts["<int:pk>"] = next((values for ends, values in numbers.items() if before.endswith(ends)), ["<?>"])
    filled = [route]
    for name, values in parts.items():
        filled = [one.replace(name, str(value)) for one in filled for value in (values if name in one else [""])]
    return [re.sub(r"\^|\$|\\Z", "", one) for one in filled]
