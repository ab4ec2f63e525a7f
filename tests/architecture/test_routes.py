"""Every route × every role: who has access.

A route that is missing from the table fails the test.
"""

from collections.abc import Iterator

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, get_resolver

from tests.architecture.routes_stage import (  # noqa: F401  (fixtures)
    API_RUN,
    ARENA,
    BENCH,
    ENVIRONMENT,
    PROJECT,
    ROLES,
    RUN,
    STANDINGS,
    WEIGHT,
    stage,
    visit,
)

# The outcome for each role in turn. "in": has access, also if the response is a redirect, 400,
# 409 or 422.
CLOSED = ("no such method",) * len(ROLES)
REFUSED = ("login", "absent", "forbidden", "unknown")
OPEN = ("in", "in", "in", "in", "in")
PERSON = ("login", "in", "in", "in", "in")
MEMBER = ("login", "absent", "in", "in", "in")
STEERER = ("login", "absent", "forbidden", "in", "in")
OWNER = STEERER  # the cast has no researcher; tests of projects check that one is refused
MAKER = ("login", "forbidden", "forbidden", "in", "in")  # for objects in a project of theirs
TO_LOGIN = ("login", "login", "login", "login", "login")  # closed: redirects to the login page
SECOND_FACTOR = ("login", "absent", "absent", "absent", "absent")  # for those who have one
# For a version without a folder; tests of weights check the access to one with a folder.
NO_FOLDER = ("login", "absent", "absent", "absent", "absent")
NO_ADAPTER = ("login", "absent", "forbidden", "absent", "absent")
NO_VERSIONS = NO_ADAPTER  # tests of the page check the access with two ids
AUTHOR = ("login", "absent", "in", "absent", "absent")  # of a rating of the rater's
NO_DRY_START = NO_ADAPTER  # tests of new runs check the access to a dry start
NO_TRIAL = NO_ADAPTER
NOWHERE = ("absent", "absent", "absent", "absent", "absent")
API_PERSON = ("unknown", "in", "in", "in", "in")
API_MEMBER = ("unknown", "absent", "in", "in", "in")
API_STEERER = ("unknown", "absent", "forbidden", "in", "in")
API_OWNER = API_STEERER
API_PLAYER = (
    "unknown",
    "absent",
    "forbidden",
    "forbidden",
    "forbidden",
)  # no user here plays the episode
API_NOT_TAKEN = ("unknown", "absent", "absent", "absent", "absent")  # its turn was not taken
KEYED = ("unknown", "unknown", "unknown", "unknown", "unknown")
AGENT_ADDRESSES = (
    "chat/completions",
    "completions",
    "models",
    "models/<str:model>",
    "feedback",
    "rl/start_session",
    "rl/set_reward",
    "rl/end_session",
    "rl/export_trajectories",
    "",
)
OPENENV = ("openenv/<slug:name>/", "openenv/<slug:project>/<slug:name>/")
OPENENV_ADDRESSES = ("metadata", "schema", "openapi.json", "state", "reset", "step", "mcp")


SLOT_VERBS = ("keep", "release", "skip", "flag", "rewrite")

TABLE = {
    "accounts/login/": {"GET": OPEN, "POST": OPEN},
    "accounts/logout/": {"GET": OPEN, "POST": OPEN},
    "accounts/inactive/": {"GET": OPEN, "POST": None},
    "accounts/signup/": {"GET": TO_LOGIN, "POST": TO_LOGIN},
    "accounts/email/": {"GET": TO_LOGIN, "POST": TO_LOGIN},
    "accounts/social/signup/": {"GET": TO_LOGIN, "POST": TO_LOGIN},
    "accounts/social/": {"GET": TO_LOGIN, "POST": TO_LOGIN},
    # No provider is configured here; tests of OpenID Connect check the access with one.
    "accounts/oidc/<slug:provider_id>/login/": {"GET": None, "POST": NOWHERE},
    "accounts/oidc/<slug:provider_id>/login/callback/": {"GET": NOWHERE, "POST": None},
    "accounts/reauthenticate/": {"GET": PERSON, "POST": PERSON},
    "accounts/password/change/": {"GET": PERSON, "POST": PERSON},
    "accounts/password/reset/": {"GET": OPEN, "POST": OPEN},
    "accounts/password/reset/done/": {"GET": OPEN, "POST": None},
    "accounts/password/reset/key/<base36:uidb36>-<str:key>/": {"GET": OPEN, "POST": OPEN},
    "accounts/password/reset/key/done/": {"GET": OPEN, "POST": None},
    "accounts/2fa/": {"GET": PERSON, "POST": None},
    "accounts/2fa/authenticate/": {"GET": PERSON, "POST": PERSON},
    "accounts/2fa/reauthenticate/": {"GET": PERSON, "POST": PERSON},
    "accounts/2fa/totp/activate/": {"GET": PERSON, "POST": PERSON},
    "accounts/2fa/totp/deactivate/": {"GET": SECOND_FACTOR, "POST": SECOND_FACTOR},
    "accounts/2fa/recovery-codes/": {"GET": SECOND_FACTOR, "POST": None},
    "accounts/2fa/recovery-codes/generate/": {"GET": PERSON, "POST": PERSON},
    "accounts/2fa/recovery-codes/download/": {"GET": SECOND_FACTOR, "POST": None},
    "api/v1/schema/": {"GET": API_PERSON, "POST": None},
    "api/v1/docs/": {"GET": PERSON, "POST": None},
    "api/v1/runs/": {"GET": API_PERSON, "POST": API_PERSON},
    API_RUN: {"GET": API_MEMBER, "POST": None},
    API_RUN + "start/": {"GET": None, "POST": API_STEERER},
    API_RUN + "pause/": {"GET": None, "POST": API_STEERER},
    API_RUN + "resume/": {"GET": None, "POST": API_STEERER},
    API_RUN + "stop/": {"GET": None, "POST": API_STEERER},
    API_RUN + "metrics/": {"GET": API_MEMBER, "POST": None},
    API_RUN + "deletion/": {"GET": API_OWNER, "POST": API_OWNER},
    "api/v1/run-deletions/": {"GET": API_PERSON, "POST": None},
    "api/v1/run-deletions/<int:pk>/": {"GET": API_MEMBER, "POST": None},
    "api/v1/run-deletions/<int:pk>/again/": {"GET": None, "POST": API_OWNER},
    "api/v1/projects/<slug:project>/deletion/": {"GET": API_OWNER, "POST": API_OWNER},
    "api/v1/project-deletions/": {"GET": API_PERSON, "POST": None},
    "api/v1/project-deletions/<int:pk>/": {"GET": API_MEMBER, "POST": None},
    "api/v1/project-deletions/<int:pk>/again/": {"GET": None, "POST": API_OWNER},
    "api/v1/rollouts/": {"GET": API_PERSON, "POST": None},
    "api/v1/rollouts/<int:pk>/": {"GET": API_MEMBER, "POST": None},
    API_RUN + "trace/<int:version>/": {"GET": API_STEERER, "POST": None},
    API_RUN + "rescorings/": {"GET": API_STEERER, "POST": API_STEERER},
    API_RUN + "rescorings/<int:rescoring>/": {"GET": API_STEERER, "POST": None},
    API_RUN + "rescorings/<int:rescoring>/stop/": {"GET": None, "POST": API_STEERER},
    API_RUN + "replay/": {"GET": None, "POST": API_STEERER},
    API_RUN + "events/": {"GET": API_MEMBER, "POST": None},
    **{
        API_RUN + f"exports/{what}/": {"GET": API_STEERER, "POST": None}
        for what in ("metrics", "events", "audit")
    },
    API_RUN + "exports/<slug:kind>/": {"GET": API_STEERER, "POST": None},
    API_RUN + "episodes.jsonl": {"GET": API_STEERER, "POST": None},
    "api/v1/pictures/<sha256:sha256>/": {"GET": API_MEMBER, "POST": None},
    "api/v1/ratings/": {"GET": None, "POST": API_PERSON},
    "api/v1/ratings/<int:pk>/trace/": {"GET": API_MEMBER, "POST": None},
    "api/v1/rating-queue/": {"GET": API_PERSON, "POST": None},
    "api/v1/rating-queue/claim/": {"GET": None, "POST": API_PERSON},
    **{
        f"api/v1/rating-slots/<int:pk>/{verb}": {"GET": None, "POST": API_PERSON}
        for verb in ("", "keep/", "release/", "skip/")
    },
    "api/v1/imports/": {"GET": API_PERSON, "POST": API_PERSON},
    "api/v1/imports/<int:pk>/": {"GET": API_STEERER, "POST": None},
    "api/v1/imports/<int:pk>/start/": {"GET": None, "POST": API_STEERER},
    "api/v1/imports/<int:pk>/stop/": {"GET": None, "POST": API_STEERER},
    "api/v1/models/": {"GET": API_PERSON, "POST": API_PERSON},
    "api/v1/models/<int:pk>/": {"GET": API_MEMBER, "POST": None, "DELETE": API_STEERER},
    "api/v1/model-imports/": {"GET": API_PERSON, "POST": None},
    "api/v1/model-imports/<int:pk>/": {"GET": API_STEERER, "POST": None},
    **{
        f"api/v1/model-imports/<int:pk>/{verb}/": {"GET": None, "POST": API_STEERER}
        for verb in ("start", "stop", "again")
    },
    "api/v1/model-imports/<int:pk>/files/<str:name>/": {
        "GET": None,
        "POST": None,
        "PUT": API_STEERER,
    },
    "api/v1/lessons/": {"GET": None, "POST": API_PERSON},
    "api/v1/environments/": {"GET": API_PERSON, "POST": API_PERSON},
    "api/v1/environments/<slug:name>/": {
        "GET": API_MEMBER,
        "POST": None,
        "PATCH": API_STEERER,
    },
    "api/v1/environments/<slug:name>/episodes/": {"GET": None, "POST": API_STEERER},
    "api/v1/episodes/<int:pk>/": {"GET": API_MEMBER, "POST": None},
    "api/v1/episodes/<int:pk>/turns/": {"GET": None, "POST": API_PLAYER},
    "api/v1/episodes/<int:pk>/turns/<int:number>/": {"GET": API_NOT_TAKEN, "POST": None},
    "api/v1/episodes/<int:pk>/result/": {"GET": None, "POST": API_PLAYER},
    "api/v1/rewards/": {"GET": None, "POST": API_PERSON},
    "api/v1/": {"GET": NOWHERE, "POST": NOWHERE},  # any path that no other REST route matches
    # For machines with the installation's secret; users have no access.
    "weight-files/": {"GET": KEYED, "POST": None},
    "weight-files/policies/<int:pk>/<slug:fingerprint>/<str:name>": {"GET": KEYED, "POST": None},
    "weight-files/versions/<int:pk>/<slug:fingerprint>/<str:name>": {"GET": KEYED, "POST": None},
    # Before the stars that replace the rater’s rating.
    "my-work/": {"GET": PERSON, "POST": None},
    "my-work/<int:pk>/change/": {"GET": None, "POST": AUTHOR},
    "rate/": {"GET": PERSON, "POST": None},
    "rate/next/": {"GET": None, "POST": API_PERSON},
    "rate/end/": {"GET": PERSON, "POST": None},
    "rate/guidelines/<int:run>/": {"GET": MEMBER, "POST": None},
    "rate/forms/<slug:form>/form.js": {"GET": PERSON, "POST": None},
    **{
        route: {"GET": None, "POST": API_PERSON}
        for route in (
            "rate/undo/",
            "rate/slots/<int:slot>/",
            *(f"rate/slots/<int:slot>/{verb}/" for verb in SLOT_VERBS),
        )
    },
    "rate/<int:rollout>/": {"GET": None, "POST": MEMBER},
    ARENA: {"GET": MEMBER, "POST": None},
    ARENA + "next/": {"GET": API_MEMBER, "POST": None},
    ARENA + "vote/": {"GET": None, "POST": API_PERSON},
    ARENA + "undo/": {"GET": None, "POST": API_PERSON},
    "arenas/": {"GET": PERSON, "POST": None},
    STANDINGS: {"GET": MEMBER, "POST": None},
    STANDINGS + "votes.csv": {"GET": STEERER, "POST": None},
    STANDINGS + "<slug:verb>/": {"GET": None, "POST": STEERER},
    # Only with a key of a run, whoever is signed in (tests/environments/agents).
    **{f"v1/{address}": {"GET": KEYED, "POST": KEYED} for address in AGENT_ADDRESSES},
    # Likewise, with a token for that environment (tests/environments/openenv); anybody may check
    # whether the server responds.
    **{
        named + address: {"GET": KEYED, "POST": KEYED}
        for named in OPENENV
        for address in OPENENV_ADDRESSES
    },
    **{named + "health": {"GET": OPEN, "POST": None} for named in OPENENV},
    "openenv/": {"GET": NOWHERE, "POST": NOWHERE},
    "healthz": {"GET": OPEN, "POST": None},
    "readyz": {"GET": OPEN, "POST": None},
    "metrics": {"GET": API_PERSON, "POST": None},
    "favicon.ico": {"GET": OPEN, "POST": OPEN},
    "": {"GET": PERSON, "POST": None},
    "home/now/": {"GET": PERSON, "POST": None},
    "find/": {"GET": PERSON, "POST": None},
    "find/rows/": {"GET": PERSON, "POST": None},
    "live/": {"GET": PERSON, "POST": None},
    "live/cards/": {"GET": PERSON, "POST": None},
    "live/chips/": {"GET": PERSON, "POST": None},
    "live/over/": {"GET": PERSON, "POST": None},
    "live/<int:rollout>/": {"GET": MEMBER, "POST": None},
    "live/<int:rollout>/<slug:kind>/": {
        "GET": ("unknown", "absent", "absent", "in", "in"),
        "POST": ("unknown", "absent", "absent", "in", "in"),
    },
    "tour/": {"GET": None, "POST": PERSON},
    "runs/": {"GET": PERSON, "POST": None},
    "compare/": {"GET": PERSON, "POST": None},
    "compare/curves/": {"GET": PERSON, "POST": None},
    "runs/new/": {"GET": MAKER, "POST": MAKER},
    "runs/new-check/": {"GET": None, "POST": MAKER},
    "runs/new-tried/<slug:project>/<slug:slug>/": {"GET": NO_DRY_START, "POST": None},
    "runs/now/": {"GET": PERSON, "POST": None},
    "runs/act/": {"GET": None, "POST": PERSON},  # 400: the form contains the action and its target
    RUN: {"GET": MEMBER, "POST": None},
    RUN + "delete/": {"GET": OWNER, "POST": OWNER},
    "run-deletions/<int:pk>/": {"GET": MEMBER, "POST": None},
    "run-deletions/<int:pk>/now/": {"GET": MEMBER, "POST": None},
    "run-deletions/<int:pk>/again/": {"GET": None, "POST": OWNER},
    "project-deletions/<int:pk>/": {"GET": MEMBER, "POST": None},
    "project-deletions/<int:pk>/now/": {"GET": MEMBER, "POST": None},
    "project-deletions/<int:pk>/again/": {"GET": None, "POST": OWNER},
    RUN + "curves/": {"GET": MEMBER, "POST": None},
    RUN + "curves.csv": {"GET": STEERER, "POST": None},
    RUN + "charts/": {"GET": MEMBER, "POST": None},
    RUN + "charts/views/": {"GET": None, "POST": STEERER},
    RUN + "charts/views/<int:pk>/delete/": {"GET": None, "POST": STEERER},
    RUN + "labels/": {"GET": MEMBER, "POST": STEERER},
    RUN + "pulse/": {"GET": MEMBER, "POST": None},
    RUN + "steps/": {"GET": MEMBER, "POST": None},
    RUN + "steps/<int:number>/": {"GET": MEMBER, "POST": None},
    RUN + "steps/<int:number>/drawer/": {"GET": MEMBER, "POST": None},
    RUN + "part/<slug:part>/": {"GET": MEMBER, "POST": None},
    RUN + "act/<slug:verb>/": {"GET": None, "POST": STEERER},
    RUN + "simulated-rater/": {"GET": None, "POST": STEERER},
    RUN + "people/": {"GET": MEMBER, "POST": STEERER},
    RUN + "settings/": {"GET": MEMBER, "POST": STEERER},
    RUN + "logs/": {"GET": MEMBER, "POST": None},
    RUN + "audit/": {"GET": STEERER, "POST": None},
    "audit/<slug:project>/": {"GET": STEERER, "POST": None},
    "logs/": {"GET": PERSON, "POST": None},
    "logs/<int:pk>/": {
        "GET": ("login", "absent", "absent", "in", "in"),
        "POST": None,
    },  # a blind rater reads no line
    "workers/": {"GET": PERSON, "POST": None},
    "workers/now/": {"GET": PERSON, "POST": None},
    "workers/<int:pk>/": {"GET": PERSON, "POST": None},
    "workers/<int:pk>/now/": {"GET": PERSON, "POST": None},
    "workers/<int:pk>/logs/": {"GET": PERSON, "POST": None},
    "workers/<int:pk>/order/<slug:verb>/": {
        "GET": None,
        "POST": ("login", "forbidden", "forbidden", "forbidden", "absent"),
    },
    RUN + "people/preview/": {"GET": None, "POST": STEERER},
    RUN + "people/quality/": {"GET": STEERER, "POST": None},
    RUN + "people/calibration/": {
        "GET": STEERER,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),
    },
    RUN + "people/calibration/now/": {"GET": STEERER, "POST": None},
    RUN + "people/calibration.json": {"GET": STEERER, "POST": None},
    RUN + "people/adjudicate/": {"GET": STEERER, "POST": None},
    RUN + "people/adjudicate/<int:pk>/": {
        "GET": ("login", "absent", "forbidden", "absent", "absent"),
        "POST": ("login", "absent", "forbidden", "absent", "absent"),
    },
    RUN + "people/rater-model/": {"GET": STEERER, "POST": None},
    RUN + "people/rater-model/curves/": {"GET": STEERER, "POST": None},
    RUN + "people/gold/": {"GET": STEERER, "POST": None},
    RUN + "people/gold/new/": {"GET": STEERER, "POST": STEERER},
    RUN + "people/gold/<int:pk>/retire/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),
    },
    RUN + "people/bought/": {"GET": STEERER, "POST": None},
    RUN + "people/bought/curves/": {"GET": STEERER, "POST": None},
    RUN + "suspicions/": {"GET": STEERER, "POST": None},
    RUN + "suspicions/<int:pk>/": {
        "GET": ("login", "absent", "forbidden", "absent", "absent"),
        "POST": None,
    },
    RUN + "suspicions/<int:pk>/<slug:verb>/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),
    },
    RUN + "evaluations/": {"GET": MEMBER, "POST": STEERER},
    RUN + "evaluations/now/": {"GET": MEMBER, "POST": None},
    RUN + "evaluations/schedules/": {"GET": None, "POST": STEERER},
    RUN + "evaluations/arena/": {"GET": None, "POST": STEERER},
    "alerts/": {"GET": PERSON, "POST": None},
    "alerts/now/": {"GET": PERSON, "POST": None},
    "alerts/channels/<slug:project>/": {"GET": STEERER, "POST": STEERER},
    "alerts/channels/<slug:project>/<int:pk>/<slug:verb>/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),
    },
    RUN + "alerts/": {"GET": MEMBER, "POST": None},
    RUN + "alerts/now/": {"GET": MEMBER, "POST": None},
    RUN + "alerts/banner/": {"GET": MEMBER, "POST": None},
    RUN + "alerts/rules/": {"GET": STEERER, "POST": STEERER},
    RUN + "alerts/<int:pk>/acknowledge/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),
    },
    RUN + "cost/": {"GET": MEMBER, "POST": None},
    RUN + "cost/budget/": {"GET": None, "POST": STEERER},
    RUN + "cost/prices/": {"GET": None, "POST": STEERER},
    RUN + "exports/": {"GET": STEERER, "POST": None},
    RUN + "exports/metrics-<slug:shape>.<slug:format>": {"GET": STEERER, "POST": None},
    RUN + "exports/evaluations.<slug:format>": {"GET": STEERER, "POST": None},
    RUN + "exports/events.jsonl": {"GET": STEERER, "POST": None},
    RUN + "exports/audit.jsonl": {"GET": STEERER, "POST": None},
    RUN + "exports/<slug:what>.<slug:format>": {"GET": STEERER, "POST": None},
    RUN + "trace/": {"GET": STEERER, "POST": None},
    RUN + "trace/<int:version>/": {"GET": STEERER, "POST": None},
    RUN + "trace/models/<int:number>/": {
        "GET": ("login", "absent", "forbidden", "absent", "absent"),
        "POST": None,
    },
    RUN + "replay/": {"GET": STEERER, "POST": STEERER},
    RUN + "buffer/": {"GET": MEMBER, "POST": None},
    RUN + "pipeline/": {"GET": MEMBER, "POST": STEERER},
    RUN + "pipeline/try/": {"GET": None, "POST": STEERER},
    RUN + "pipeline/again/": {"GET": None, "POST": STEERER},
    RUN + "pipeline/release/<int:pk>/": {"GET": None, "POST": STEERER},
    RUN + "rescorings/": {"GET": STEERER, "POST": STEERER},
    RUN + "rescorings/<int:pk>/": {"GET": STEERER, "POST": None},
    RUN + "rescorings/<int:pk>/now/": {"GET": STEERER, "POST": None},
    RUN + "rescorings/<int:pk>/stop/": {"GET": None, "POST": STEERER},
    RUN + "rollouts/": {"GET": MEMBER, "POST": None},
    RUN + "rollouts/rewards/": {"GET": STEERER, "POST": None},  # a blind rater sees no reward
    # Actions on rollouts need their ids; none is given here.
    RUN + "rollouts/act/": {"GET": None, "POST": STEERER},  # 400: the form contains the action
    RUN + "groups/<int:pk>/": {"GET": MEMBER, "POST": None},
    RUN + "weights/": {"GET": MEMBER, "POST": None},
    RUN + "weights/compare/behaviour/": {"GET": NO_VERSIONS, "POST": NO_VERSIONS},
    RUN + "weights/compare/": {"GET": STEERER, "POST": STEERER},
    RUN + "weights/compare/<int:pk>/": {"GET": STEERER, "POST": None},
    RUN + "weights/compare/<int:pk>/now/": {"GET": STEERER, "POST": None},
    WEIGHT + "manifest.json": {"GET": NO_FOLDER, "POST": None},
    WEIGHT + "adapter.zip": {"GET": NO_ADAPTER, "POST": None},
    RUN + "weights/exports/<int:pk>.zip": {"GET": STEERER, "POST": None},
    RUN + "weights/exports/<int:pk>/delete/": {"GET": None, "POST": STEERER},
    WEIGHT: {"GET": MEMBER, "POST": None},
    WEIGHT + "now/": {"GET": STEERER, "POST": None},
    WEIGHT + "act/<slug:verb>/": {"GET": None, "POST": STEERER},
    WEIGHT + "chat/": {"GET": STEERER, "POST": STEERER},
    WEIGHT + "chat/<int:pk>/": {
        "GET": ("login", "absent", "forbidden", "in", "absent"),
        "POST": None,
    },
    WEIGHT + "chat/<int:pk>/<slug:verb>/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "in", "absent"),
    },
    "rollouts/<int:pk>/": {"GET": MEMBER, "POST": None},
    "rollouts/<int:pk>/tokens/": {"GET": STEERER, "POST": None},
    "rollouts/<int:pk>/correct/": {"GET": None, "POST": STEERER},
    "rollouts/<int:pk>/add-task/": {"GET": None, "POST": STEERER},
    "ratings/<int:pk>/": {"GET": MEMBER, "POST": None},
    "lessons/<slug:project>/import/": {
        "GET": ("login", "absent", "absent", "in", "in"),
        "POST": ("login", "absent", "absent", "in", "in"),
    },
    RUN + "task-requests/": {"GET": None, "POST": STEERER},
    "imports/of/<slug:project>/": {"GET": STEERER, "POST": STEERER},
    "imports/of/<slug:project>/hub/": {"GET": None, "POST": STEERER},
    "imports/<int:pk>/": {"GET": STEERER, "POST": STEERER},
    "imports/<int:pk>/now/": {"GET": STEERER, "POST": None},
    "imports/<int:pk>/stop/": {"GET": None, "POST": STEERER},
    "tasksets/": {"GET": PERSON, "POST": None},
    "tasksets/<slug:project>/<slug:slug>/": {"GET": MEMBER, "POST": None},
    "tasksets/<slug:project>/<slug:slug>/export.<slug:format>": {"GET": STEERER, "POST": None},
    "tasksets/<slug:project>/<slug:slug>/overlap/": {"GET": STEERER, "POST": None},
    BENCH: {"GET": STEERER, "POST": STEERER},
    BENCH + "trials/<int:pk>/": {"GET": STEERER, "POST": None},
    BENCH + "trials/<int:pk>/now/": {"GET": STEERER, "POST": None},
    BENCH + "trials/<int:pk>/keep/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),  # no scores exist here
    },
    BENCH + "cases/": {"GET": STEERER, "POST": STEERER},
    BENCH + "cases/now/": {"GET": STEERER, "POST": None},
    BENCH + "cases/<int:pk>/delete/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),
    },
    "pictures/<sha256:sha256>/": {"GET": MEMBER, "POST": None},
    "environments/": {"GET": PERSON, "POST": None},
    ENVIRONMENT: {"GET": MEMBER, "POST": None},
    ENVIRONMENT + "now/": {"GET": MEMBER, "POST": None},
    ENVIRONMENT + "close-breaker/": {"GET": None, "POST": STEERER},
    "episodes/<int:pk>/": {"GET": MEMBER, "POST": None},
    "episodes/<int:pk>/now/": {"GET": MEMBER, "POST": None},
    "episodes/<int:pk>/take/": {"GET": None, "POST": STEERER},
    "episodes/<int:pk>/say/": {"GET": None, "POST": STEERER},
    "episodes/<int:pk>/end/": {"GET": None, "POST": STEERER},
    "weights/": {"GET": PERSON, "POST": None},
    "help/": {"GET": PERSON, "POST": None},
    "help/search/": {"GET": PERSON, "POST": None},
    "help/files/<path:name>": {"GET": PERSON, "POST": None},
    "help/<path:name>/": {"GET": PERSON, "POST": None},
    "models/": {"GET": PERSON, "POST": None},
    "models/add/": {"GET": MAKER, "POST": MAKER},
    "models/<slug:project>/<slug:slug>/": {"GET": MEMBER, "POST": None},
    "models/<slug:project>/<slug:slug>/delete/": {"GET": None, "POST": STEERER},
    "models/<slug:project>/<slug:slug>/prompt/": {"GET": None, "POST": STEERER},
    "models/<slug:project>/<slug:slug>/prompt/now/": {"GET": STEERER, "POST": None},
    # Without a tried prompt there is nothing to stop.
    "models/<slug:project>/<slug:slug>/prompt/stop/": {"GET": None, "POST": NO_TRIAL},
    "models/<slug:project>/<slug:slug>/preview/": {"GET": None, "POST": STEERER},
    "models/<slug:project>/<slug:slug>/preview/now/": {"GET": STEERER, "POST": None},
    "model-imports/<int:pk>/": {"GET": STEERER, "POST": STEERER},
    "model-imports/<int:pk>/now/": {"GET": STEERER, "POST": None},
    "model-imports/<int:pk>/stop/": {"GET": None, "POST": STEERER},
    "projects/": {"GET": PERSON, "POST": MAKER},
    PROJECT: {"GET": OWNER, "POST": OWNER},
    PROJECT + "archive/": {"GET": None, "POST": OWNER},
    PROJECT + "delete/": {"GET": OWNER, "POST": OWNER},
    PROJECT + "groups/": {"GET": None, "POST": OWNER},
    PROJECT + "groups/<int:pk>/": {"GET": None, "POST": OWNER},
    PROJECT + "members/<int:pk>/": {"GET": None, "POST": OWNER},
    PROJECT + "members/<int:pk>/reset/": {"GET": None, "POST": OWNER},
    PROJECT + "invitations/": {"GET": None, "POST": OWNER},
    PROJECT + "invitations/<int:pk>/revoke/": {"GET": None, "POST": OWNER},
    PROJECT + "invitations/<int:pk>/mail/": {
        "GET": None,
        "POST": ("login", "absent", "forbidden", "absent", "absent"),  # it was not sent by e-mail
    },
    "invitations/<str:secret>/": {"GET": OPEN, "POST": OPEN},
    "settings/": {"GET": PERSON, "POST": None},
    "settings/email/": {"GET": None, "POST": PERSON},
    "settings/keys/": {"GET": None, "POST": PERSON},
    "settings/tokens/": {"GET": None, "POST": PERSON},
    "settings/tokens/<int:pk>/revoke/": {
        "GET": None,
        "POST": ("login", "absent", "absent", "in", "absent"),
    },
}


def routes(patterns: list | None = None, prefix: str = "") -> Iterator[str]:
    """Return every route of the URL configuration, as it is written there."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from routes(pattern.url_patterns, route)


OPEN_IN_THE_ADMIN = {"admin/login/", "admin/logout/"}
ADMIN = sorted(route for route in routes() if route.startswith("admin/"))


def meeting(answer: HttpResponse) -> str:
    """Return the outcome of a visit, in the words of the table."""
    if answer.status_code in (301, 302) and answer["Location"].startswith(
        ("/accounts/login/", "/admin/login/")
    ):
        return "login"
    return {401: "unknown", 403: "forbidden", 404: "absent", 405: "no such method"}.get(
        answer.status_code, "in"
    )


def test_table_lists_exactly_the_existing_routes():
    assert set(TABLE) ^ (set(routes()) - set(ADMIN)) == set()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_each_role_can_open_only_its_routes(visit, role, method):
    met = {route: meeting(visit(role, method, route)) for route in TABLE}
    expected = {
        route: methods[method][ROLES.index(role)]
        for route, methods in TABLE.items()
        if methods[method]
    }
    assert {route: met[route] for route in expected if met[route] != expected[route]} == {}
    assert [route for route, words in met.items() if route not in expected and words == "in"] == []


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
def test_routes_refuse_methods_that_are_not_in_the_table(visit, method):
    met = {(role, route): meeting(visit(role, method, route)) for route in TABLE for role in ROLES}
    expected = {
        (role, route): words
        for route, methods in TABLE.items()
        for role, words in zip(ROLES, methods.get(method, CLOSED), strict=True)
    }
    wrong = [key for key in met if not agrees(met[key], expected[key])]
    assert {route: sorted(role for role, at in wrong if at == route) for _, route in wrong} == {}


@pytest.mark.parametrize("role", ROLES[:3])
def test_routes_closed_to_get_are_closed_to_head(visit, role):
    expected = {route: (m["GET"] or CLOSED)[ROLES.index(role)] for route, m in TABLE.items()}
    closed = [route for route in TABLE if expected[route] in REFUSED]
    assert [route for route in closed if meeting(visit(role, "HEAD", route)) == "in"] == []


def test_options_shows_a_stranger_only_the_methods(visit):
    answers = {route: visit("stranger", "OPTIONS", route) for route in TABLE}
    closed = [route for route, methods in TABLE.items() if "absent" in (methods["GET"] or CLOSED)]
    told = [route for route in closed if answers[route].status_code == 200]
    assert {route: answers[route].content for route in told} == dict.fromkeys(told, b"")


def agrees(met: str, expected: str) -> bool:
    """Compare outcomes; where no method is expected, any refusal is accepted."""
    return met != "in" if expected == "no such method" else met == expected


@pytest.mark.parametrize("role", ROLES[:-1])
def test_admin_pages_are_open_to_staff_only(visit, role):
    met = {
        route: meeting(visit(role, "GET", route.replace("<path:object_id>", "1")))
        for route in ADMIN
        if "(" not in route
    }
    assert {route for route, words in met.items() if words == "in"} <= OPEN_IN_THE_ADMIN


def test_form_without_a_csrf_token_is_refused(cast, run):
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.alice)
    changing = [
        route
        for route, methods in TABLE.items()
        if methods["POST"] in (PERSON, STEERER) and "<" not in route
    ]
    assert {route: client.post(f"/{route}", {}).status_code for route in changing} == dict.fromkeys(
        changing, 403
    )


def test_rest_with_a_session_cookie_requires_a_csrf_token(cast, run):
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.alice)
    assert (
        client.post(
            f"/api/v1/runs/{run.pk}/pause/", {}, content_type="application/json"
        ).status_code
        == 403
    )
    run.refresh_from_db()
    assert run.is_live
