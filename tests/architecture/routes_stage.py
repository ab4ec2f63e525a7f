"""Create the rows that the routes refer to, and visit the routes in each role."""

import uuid
from base64 import b64decode
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django.test.client import ClientHandler

from apps.accounts.models import Invitation, Membership, Project, RaterGroup, Token, User
from apps.environments.models import Environment, Episode
from apps.evaluation.models import Arena, Contestant
from apps.feedback.models import Rating
from apps.policies.models import PolicyImport
from apps.rewards.models import Rescoring, Trial
from apps.rollouts.models import Chat, Comparison, Rollout
from apps.runs.models import (
    ChartView,
    ExportJob,
    LogLine,
    ProjectRemoval,
    Run,
    RunRemoval,
    WeightVersion,
    Worker,
)
from apps.tasksets.models import Picture, TasksetImport

DOT = b64decode("R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw==")  # a GIF of one pixel
ROLES = ("nobody", "stranger", "rater", "owner", "administrator")


PROJECT = "projects/<slug:project>/"
RUN = "runs/<slug:project>/<slug:slug>/"
WEIGHT = RUN + "weights/<int:version>/"
ENVIRONMENT = "environments/<slug:project>/<slug:name>/"
API_RUN = "api/v1/runs/<int:pk>/"
BENCH = "test-bench/<slug:project>/"
ARENA = "rate/arenas/<int:pk>/"
STANDINGS = "arenas/<slug:project>/<int:pk>/"


def weights_part(route: str) -> str:
    """Return which of the pages about weight versions the route belongs to; "" for any other."""
    return next(
        (
            part
            for part in ("compare", "exports", "chat")
            if f"/{part}/<int:pk>" in route and "/weights/" in route
        ),
        "",
    )


@pytest.fixture
def stage(cast, run, finish, tmp_path) -> SimpleNamespace:
    """Create a row of each kind that a route refers to, in the cast's project."""
    [group] = finish(run)
    rollout = Rollout.objects.filter(group=group).first()
    base = run.weight_versions.get()
    worker = Worker.objects.create(
        key="scorer@here:1:1", role=Worker.Role.SCORER, host="here", pid=1
    )
    run.steps.create(number=1, version=0, fence=0, state="committed", committed_at=run.created_at)
    return SimpleNamespace(
        run=run,
        group=group,
        rollout=rollout,
        worker=worker,
        token=Token.issue(cast.alice, "hers", ["read"])[0],
        rating=_rating(run, rollout, cast.bob),
        episode=_episode(run),
        picture=Picture.take(run.project, DOT),
        taskset_import=TasksetImport.objects.create(project=run.project, name="a.jsonl", bytes=0),
        policy_import=PolicyImport.objects.create(
            project=run.project, kind="hub", source="owner/name", slug="added", title="Added"
        ),
        arena=_arena(run),
        log_line=LogLine.objects.create(
            event="scored", run=run, level=LogLine.Level.INFO, at=run.created_at, worker=worker.key
        ),
        rescoring=Rescoring.create(run, run.settings, {}, [(group.pk, 2)]),
        trial=_trial(run.project),
        comparison=Comparison.objects.create(
            run=run, one=base, other=base, temperature=1.0, max_tokens=8
        ),
        chat=Chat.objects.create(weight_version=base, by=cast.alice),
        export=_export(base, tmp_path / "exported"),
        chart_view=ChartView.keep(run, cast.alice, "mine", "", of_all_runs=False, is_shared=True),
        rater_group=RaterGroup.objects.create(project=run.project, name="experts"),
        removal=RunRemoval.objects.create(project=run.project, run_number=0, slug="gone"),
        project_removal=ProjectRemoval.objects.create(project=run.project, slug="lab", title="Lab"),
        **_members(run.project, cast),
    )


def _rating(run: Run, rollout: Rollout, rater: User) -> Rating:
    return Rating.objects.create(
        run=run,
        rollout=rollout,
        rater=rater,
        form="stars",
        answer={"stars": 3},
        client_uuid=uuid.uuid4(),
    )


def _episode(run: Run) -> Episode:
    environment = Environment.objects.create(
        project=run.project, name="maze", kind=Environment.Kind.PUSH
    )
    return Episode.objects.create(
        environment=environment, run=run, seed=0, turn_limit=3, state=Episode.State.WAITING
    )


def _arena(run: Run) -> Arena:
    arena = Arena.objects.create(
        project=run.project, taskset=run.taskset, title="An arena", tasks=4, samples=1
    )
    rival = Run.create(project=run.project, slug="rival", title="Another", plan=run.settings)
    Contestant.objects.bulk_create(
        Contestant(arena=arena, run=one, place=n) for n, one in enumerate((run, rival))
    )
    return arena


def _trial(project: Project) -> Trial:
    task = {"prompt": [], "answer": {"value": 1}, "domain": "", "meta": {}}
    return Trial.create(project, None, scorer="math", task=task, replies=[{"text": "1"}])


def _export(version: WeightVersion, folder: Path) -> ExportJob:
    folder.mkdir()
    return ExportJob.objects.create(
        weight_version=version, kind="export", state="done", folder=str(folder)
    )


def _members(project: Project, cast) -> dict[str, object]:
    """Return an invitation's secret, one to revoke, a membership to change and one to reset."""
    day = timedelta(days=1)
    _, secret = Invitation.create(project, "viewer", day, cast.alice, max_uses=9)
    revoked, _ = Invitation.create(project, "viewer", day, cast.alice)
    dan = User.objects.create(username="dan")  # bob is no member after another route's POST
    return {
        "secret": secret,
        "invitation": revoked,
        "membership": Membership.objects.get(project=project, user=cast.bob),
        "resettable": Membership.objects.create(project=project, user=dan, role="viewer"),
    }


def address(stage: SimpleNamespace, route: str) -> str:
    """Return the route with the stage's rows in its placeholders."""
    parts = _parts(stage, route)
    route = route.replace("<slug:shape>.<slug:format>", "wide.csv")
    route = route.replace("evaluations.<slug:format>", "evaluations.csv")
    for part, value in parts.items():
        route = route.replace(part, str(value))
    return route


def _parts(stage: SimpleNamespace, route: str) -> dict[str, object]:
    slug = stage.run.taskset.slug if route.startswith("tasksets/") else stage.run.slug
    slug = stage.run.policy.slug if route.startswith("models/<slug") else slug
    verb = "close" if route.startswith(STANDINGS) else "pause"
    return {
        "<slug:project>": "lab",
        "<slug:name>": "maze",
        "<slug:part>": "now",
        "<int:rollout>": stage.rollout.pk,
        "<slug:what>": "votes",
        "<slug:format>": "jsonl",
        "<int:version>": 0,
        "<int:run>": stage.run.pk,
        "<int:slot>": 1,
        "<int:number>": 1,
        "<sha256:sha256>": stage.picture.sha256,
        "<int:rescoring>": stage.rescoring.pk,
        "<slug:fingerprint>": "0" * 16,
        "<slug:form>": "stars",
        "<str:name>": "config.json",
        "<str:secret>": stage.secret,
        "<base36:uidb36>": "1",
        "<slug:provider_id>": "oidc",
        "<str:key>": "none",
        "<slug:verb>": "pin" if route.startswith(WEIGHT) else verb,
        "<slug:slug>": slug,
        "<int:pk>": _number(stage, route),
        "<slug:kind>": "votes" if "exports" in route else "stop",
        "<path:name>": "learning.svg" if "help/files/" in route else "glossary",
    }


def _number(stage: SimpleNamespace, route: str) -> int:
    """Return the id for `<int:pk>`, from the last entry here that matches the route."""
    fits = {
        "": stage.run,
        "rollouts": stage.rollout,
        "settings/tokens": stage.token,
        "invitations/<int:pk>": stage.invitation,
        "members/": stage.membership,
        "/reset/": stage.resettable,
        "ratings/<": stage.rating,
        "my-work/<": stage.rating,
        "groups/<": stage.group,
        PROJECT + "groups/<": stage.rater_group,
        "episodes/<": stage.episode,
        "rescorings/<int:pk>": stage.rescoring,
        "trials/<int:pk>": stage.trial,
        "workers/<int:pk>": stage.worker,
        "imports/<int:pk>": stage.taskset_import,
        "model-imports/<int:pk>": stage.policy_import,
        "v1/models/<int:pk>": stage.run.policy,
        "arenas/": stage.arena,
        "run-deletions/": stage.removal,
        "project-deletions/": stage.project_removal,
        "charts/views/": stage.chart_view,
    }
    row = [row for part, row in fits.items() if part in route][-1]
    row = stage.log_line if route.startswith("logs/") else row
    of_weights = {"compare": stage.comparison, "exports": stage.export, "chat": stage.chat}
    return of_weights.get(weights_part(route), row).pk


@pytest.fixture
def visit(cast, stage):
    """Call `visit(role, method, route)`: the route with the stage's rows in it."""
    people = dict(zip(ROLES, (None, cast.carol, cast.bob, cast.alice, cast.admin), strict=True))
    sessions: dict[str, SimpleCookie] = {}
    handler = ClientHandler(enforce_csrf_checks=False)  # loads the middleware once for all visits

    def call(role: str, method: str, route: str) -> HttpResponse:
        path = "/" + address(stage, route)
        if route.endswith(("/say/", "/end/")):
            # Act as the client that plays it: others are refused before the role matters.
            Episode.objects.filter(pk=stage.episode.pk).update(
                client=people[role], state=Episode.State.ENVIRONMENT
            )
        client = Client()
        client.handler = handler
        if people[role]:
            if role not in sessions:
                client.force_login(people[role])
                sessions[role] = client.cookies
            client.cookies = sessions[role]
        answer = send(client, method, route, path)
        if settings.SESSION_COOKIE_NAME in answer.cookies:  # a form can end the session
            sessions.pop(role, None)
        return answer

    def send(client: Client, method: str, route: str, path: str) -> HttpResponse:
        if method == "GET":
            return client.get(path)
        if method != "POST":
            return client.generic(method, path)
        if route.startswith("api/"):
            return client.post(path, {}, content_type="application/json")
        fields = {"name": stage.run.slug, "stars": 3, "client_uuid": str(uuid.uuid4())}
        return client.post(path, fields)

    return call
