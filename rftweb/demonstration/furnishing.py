"""Create the demo's rows: project, account, tasksets, policies, runs.

It runs at every start and adds what is missing.
"""

import dataclasses
import secrets
from pathlib import Path

from django.conf import settings
from django.db import transaction

from apps.accounts import strict_json
from apps.accounts.models import Membership, Project, User
from apps.policies.manifest import read_manifest
from apps.policies.models import BUILT, Policy
from apps.policies.registering import register_policy
from apps.runs import parsing
from apps.runs.models import Run
from apps.tasksets.importing import generate

PROJECT = "demo"
ACCOUNT = "demo"
TITLES = {
    "tone": "Polite replies, rated by people",
    "sort": "Five digits in order",
    "support": "A shop's customers, answered by SmolLM2 and rated by people",
    "sums": "Sums by SmolLM2",
}
TASKS = {"tone": 500, "sort": 4_096, "support": 400, "sums": 80}
# Runs of a language model that is known by this name; the others have policies that are built here.
MODELS = {"support": "smollm2", "sums": "smollm2"}
SEED = 0
RUNS = tuple(TITLES)
STANDING = tuple(name for name in RUNS if name not in MODELS)  # created at every start
PASSWORD_BYTES = 12
ORIGIN_LIMIT = 10_000  # bytes


@dataclasses.dataclass(frozen=True)
class Furniture:
    """The demo's project; `password` is set in the start that created the account."""

    project: Project
    password: str | None


@transaction.atomic
def furnish_demonstration(policies: dict[str, Path]) -> Furniture:
    """Create project and account, and for each run its policy and taskset.

    `policies` holds the sealed folders of the policies.
    """
    project, _ = Project.objects.get_or_create(slug=PROJECT, defaults={"title": "Demo"})
    password = _account(project)
    for name, folder in policies.items():
        _taskset(project, name)
        if name in MODELS:
            _model(project, MODELS[name], folder)
        else:
            _policy(project, name, folder)
    return Furniture(project, password)


def newest_run(project: Project, name: str, steps: int | None) -> Run:
    """Return the newest run of that name, or a new one.

    A new one is made if it has ended or was planned with other steps.
    """
    runs = runs_named(project, name)
    if runs and runs[0].state not in Run.ENDED and steps in (None, runs[0].planned_steps):
        return runs[0]
    plan = parsing.from_yaml(
        (settings.FILES / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
    )
    if steps is not None:
        plan = parsing.parse_config({**plan.model_dump(mode="json"), "steps": steps})
    slug = f"{name}-{max(map(_number, runs)) + 1}" if runs else name
    owner = User.objects.get(username=ACCOUNT)
    return Run.create(project=project, slug=slug, title=TITLES[name], plan=plan, owner=owner)


def runs_named(project: Project, name: str) -> list[Run]:
    """Return the demo's runs NAME, NAME-2, NAME-3 …, the newest first."""
    numbered = project.runs.filter(slug__regex=rf"^{name}(-[0-9]+)?$").select_related(
        "topic", "project"
    )
    return list(numbered.order_by("-pk"))


def _number(run: Run) -> int:
    _, _, number = run.slug.partition("-")
    return int(number or 1)


def _account(project: Project) -> str | None:
    """Create the demo's owner if missing; return its random password if it was created now."""
    user, is_new = User.objects.get_or_create(
        username=ACCOUNT, defaults={"is_staff": True, "is_superuser": True}
    )
    Membership.objects.get_or_create(
        project=project, user=user, defaults={"role": Membership.Role.OWNER}
    )
    if not is_new:
        return None
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    user.set_password(password)
    user.save(update_fields=["password"])
    return password


def _taskset(project: Project, name: str) -> None:
    if not project.tasksets.filter(slug=name).exists():
        generate(project, name, name, TASKS[name], SEED)


def _policy(project: Project, name: str, folder: Path) -> None:
    """Register the built folder.

    A newer build replaces the old one; runs keep the version 0 they began with.
    """
    policy = project.policies.filter(slug=name).first()
    if policy is None:
        register_policy(project, name, folder, f"{BUILT} {name!r}", TITLES[name])
    elif policy.folder != str(folder.resolve()):
        Policy.objects.filter(pk=policy.pk).update(
            folder=str(folder.resolve()), fingerprint=read_manifest(folder).fingerprint
        )


def _model(project: Project, name: str, folder: Path) -> None:
    """Register a language model; its source and licence are in a file beside its folder."""
    if project.policies.filter(slug=name).exists():
        return
    origin = strict_json.read_json_file(origin_file(folder), ORIGIN_LIMIT)
    register_policy(project, name, folder, origin["source"], licence=origin["licence"])


def origin_file(folder: Path) -> Path:
    """Return the file that says where the model in this folder came from."""
    return folder.with_name(f"{folder.name}.origin.json")
