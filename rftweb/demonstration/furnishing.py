"""The demo's rows: project, account, tasksets, policies, runs.

Called at every start, it adds what is missing.
"""

import dataclasses
import secrets
from pathlib import Path

from django.conf import settings
from django.db import transaction

from apps.accounts import strict_json
from apps.accounts.models import Membership, Project, User
from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.policies.registering import register
from apps.runs import config
from apps.runs.models import Run
from apps.tasksets.importing import generate

PROJECT, ACCOUNT = "demo", "demo"
TITLES = {
    "tone": "Polite replies, rated by people",
    "sort": "Five digits in order",
    "support": "A shop's customers, answered by SmolLM2 and rated by people",
    "sums": "Two-digit sums by SmolLM2",
}
TASKS = {"tone": 500, "sort": 4_096, "support": 400, "sums": 1_500}
# Runs of a language model that is known by this name; the others have policies that are built here.
MODELS = {"support": "smollm2", "sums": "smollm2"}
SEED = 0
RUNS = tuple(TITLES)
STANDING = tuple(name for name in RUNS if name not in MODELS)  # made at every start
PASSWORD_BYTES = 12
ORIGIN_LIMIT = 10_000  # bytes


@dataclasses.dataclass(frozen=True)
class Furniture:
    """What stands there now. `password` is told once, in the start that made the account."""

    project: Project
    password: str | None


@transaction.atomic
def furnish(policies: dict[str, Path]) -> Furniture:
    """Add project and account, and for each run the sealed folder of its policy, and its taskset."""
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
    """The run to go on with: the newest of that name unless it has ended or was planned otherwise; else a new one."""
    runs = runs_named(project, name)
    if runs and runs[0].state not in Run.ENDED and steps in (None, runs[0].planned_steps):
        return runs[0]
    plan = config.from_yaml((settings.BASE_DIR / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    if steps is not None:
        plan = config.parse({**plan.model_dump(mode="json"), "steps": steps})
    slug = f"{name}-{max(map(_number, runs)) + 1}" if runs else name
    owner = User.objects.get(username=ACCOUNT)
    return Run.create(project=project, slug=slug, title=TITLES[name], plan=plan, owner=owner)


def runs_named(project: Project, name: str) -> list[Run]:
    """The demo's runs of this name, newest first: NAME, NAME-2, NAME-3 …"""
    numbered = project.runs.filter(slug__regex=rf"^{name}(-[0-9]+)?$").select_related("topic", "project")
    return list(numbered.order_by("-pk"))


def _number(run: Run) -> int:
    _, _, number = run.slug.partition("-")
    return int(number or 1)


def _account(project: Project) -> str | None:
    """The demo's owner; its random password when it was made just now."""
    user, is_new = User.objects.get_or_create(username=ACCOUNT, defaults={"is_staff": True, "is_superuser": True})
    Membership.objects.get_or_create(project=project, user=user, defaults={"role": Membership.Role.OWNER})
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
    """Register the built folder. A newer build takes the place of the old one; runs keep the version 0 they began with."""
    known = project.policies.filter(slug=name).first()
    if known is None:
        register(project, name, folder, f"built by the recipe {name!r}", TITLES[name])
    elif known.folder != str(folder.resolve()):
        Policy.objects.filter(pk=known.pk).update(folder=str(folder.resolve()), fingerprint=read_manifest(folder).fingerprint)


def _model(project: Project, name: str, folder: Path) -> None:
    """Register a language model; its source and licence lie beside its folder."""
    if project.policies.filter(slug=name).exists():
        return
    origin = strict_json.read(origin_of(folder), ORIGIN_LIMIT)
    register(project, name, folder, origin["source"], licence=origin["licence"])


def origin_of(folder: Path) -> Path:
    """Return the file that says where the model in this folder came from."""
    return folder.with_name(f"{folder.name}.origin.json")
