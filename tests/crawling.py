"""Every address that answers GET, filled in for one run: tests of all pages visit these.

A new route is included at once; one with an unknown `<…>` fails until a value for it is added
here.
"""

import re
from collections.abc import Iterator

from django.db.models import Manager, QuerySet
from django.urls import URLPattern, get_resolver

from apps.dashboard.views.exports import KINDS
from apps.environments.models import Environment, Episode
from apps.evaluation.models import Arena
from apps.feedback.models import Item, RaterModel, Rating, Suspicion
from apps.rollouts.models import Rollout
from apps.runs.models import Run, Worker
from apps.tasksets.models import Picture

# Not pages: addresses for machines, login and logout, and parts that other tests visit.
NOT_WALKED = (
    "admin/",
    "accounts/logout/",
    "healthz",
    "readyz",
    "favicon.ico",
    "api/v1/schema/",
    "help/files/",  # pictures of the help
    "weight-files/",  # signed requests of other machines
)

# Prefixes of addresses with an id that are only posted to, or whose rows no test has.
NEVER_OPENED = (
    "weights/exports/",
    "chat/",
    "test-bench/<slug:project>/cases/",
    "settings/tokens/",
    "projects/<slug:project>/members/",
    "projects/<slug:project>/groups/",
    "project-deletions/",
    "run-deletions/",
    "my-work/",
    "projects/<slug:project>/invitations/",
    "pipeline/release/",
    "alerts/",
    "charts/views/",
    "alerts/channels/<slug:project>/",
)


def routes(patterns: list | None = None, prefix: str = "") -> Iterator[str]:
    """Return every route of the URL configuration, as it is written there."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from routes(pattern.url_patterns, route)


def addresses(run: Run, rollouts: list[int]) -> list[str]:
    """Return paths with their queries.

    `rollouts` are opened one by one; the first is used where one is enough.
    """
    found = []
    for route in routes():
        if route.startswith(NOT_WALKED):
            continue
        for filled in _filled(route, run, rollouts):
            assert "<" not in filled, (
                f"say in tests/crawling.py what the parts of {route} stand for"
            )
            found.append("/" + filled)
    asked = "&".join(f"rollout={pk}" for pk in rollouts)
    return [
        *found,
        f"/live/?run={run.pk}",
        f"/live/cards/?{asked}",
        f"/live/chips/?{asked}",
        f"/rate/?run={run.pk}",
    ]


def _filled(route: str, run: Run, rollouts: list[int]) -> list[str]:
    """Return the paths of a route, one for each combination of values of its parts."""
    route = route.replace("<slug:shape>.<slug:format>", "long.csv")
    route = route.replace("exports/evaluations.<slug:format>", "exports/evaluations.csv")
    before = route.partition("<int:pk>")[0]
    numbers = _numbers(run, rollouts).items()
    parts = _parts(route, run, rollouts)
    parts["<int:pk>"] = next((values for ends, values in numbers if before.endswith(ends)), ["<?>"])
    filled = [route]
    for name, values in parts.items():
        filled = [
            one.replace(name, str(value))
            for one in filled
            for value in (values if name in one else [""])
        ]
    return [re.sub(r"\^|\$|\\Z", "", one) for one in filled]


def _parts(route: str, run: Run, rollouts: list[int]) -> dict[str, list]:
    """Return the values of the named parts of a route."""
    slug = run.taskset.slug if route.startswith("tasksets/") else run.slug
    slug = run.policy.slug if route.startswith("models/<slug") else slug
    model = _first(RaterModel.objects.filter(run=run), "number")
    return {
        "<slug:name>": [_first(Environment.objects.filter(project=run.project), "name") or "none"],
        "<slug:project>": [run.project.slug],
        "<slug:slug>": [slug],
        "<slug:part>": ["now", "beside", "newest"],
        "<slug:verb>": ["pause"],
        "<slug:kind>": ["stop"],
        "<int:run>": [run.pk],
        "<int:slot>": [0],
        "<int:rollout>": rollouts,
        "<int:version>": [run.published_version],
        "<int:number>": [run.step if "/steps/" in route else model],
        "<slug:what>": list(KINDS),
        "<slug:format>": ["jsonl"],
        "<str:name>": ["config.json"],
        "<str:model>": [run.policy.slug],
        "<sha256:sha256>": [
            _first(Picture.objects.filter(project=run.project), "sha256") or "0" * 64
        ],
        "<int:rescoring>": [_first(run.rescorings)],
        "<str:secret>": ["none"],
        "<path:name>": ["people"],
        "<base36:uidb36>": ["1"],
        "<slug:provider_id>": ["oidc"],
        "<slug:form>": ["stars"],
        "<str:key>": ["none"],
    }


def _numbers(run: Run, rollouts: list[int]) -> dict[str, list]:
    """Return the values of `<int:pk>` by the text before it.

    Rows that are only acted on need none: ratings, items and tokens.
    """
    items = [_first(Item.objects.filter(run=run))]
    arenas = [_first(Arena.objects.filter(project=run.project))]
    return {
        "rollouts/": rollouts,
        "ratings/": [_first(Rating.objects.filter(run=run))],
        "api/v1/runs/": [run.pk],
        "api/v1/rating-slots/": [0],
        "adjudicate/": items,
        "episodes/": [_first(Episode.objects.filter(run=run))],
        "gold/": items,
        "rescorings/": [_first(run.rescorings)],
        "model-imports/": [_first(run.project.policy_imports)],
        "imports/": [_first(run.project.taskset_imports)],
        "models/": [run.policy_id],
        "suspicions/": [_first(Suspicion.objects.filter(run=run))],
        "workers/": [_first(Worker.objects)],
        "logs/": [_first(run.log_lines)],
        "compare/": [_first(run.comparisons)],
        "groups/": list(Rollout.objects.filter(pk__in=rollouts).values_list("group_id", flat=True)),
        "rate/arenas/": arenas,
        "arenas/<slug:project>/": arenas,
        "test-bench/<slug:project>/trials/": [_first(run.project.trials)],
        **{end: [0] for end in NEVER_OPENED},
    }


def _first(rows: Manager | QuerySet, field: str = "pk") -> int | str:
    """Return this field of the first row, or 0 if there is none."""
    return rows.values_list(field, flat=True).first() or 0
