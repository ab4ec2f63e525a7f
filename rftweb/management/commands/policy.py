"""Policies: add a model by name, folder, GGUF file or hub id, average two, list."""

import json
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from apps.accounts.models import Project
from apps.policies.adding import SLUG
from apps.policies.manifest import DamagedWeights, read_manifest
from apps.policies.model_sources import NoModel, kind_of
from apps.policies.models import Policy
from apps.policies.registering import register_policy
from apps.runs.models import WeightVersion
from rftweb.management.console import project_named, run_named

SOURCES = (
    "name of a built-in model (smollm2), a folder with safetensors, a GGUF file or a folder with "
    "one, or a Hub ID such as owner/name"
)
TEMPLATES = "a file, or one of chatml, llama3, gemma, mistral, zephyr, plain"


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        adding = verbs.add_parser(
            "add", help="check a model, seal a copy of it and add it as a policy"
        )
        adding.add_argument("source", help=SOURCES)
        adding.add_argument("--slug", help="name of the policy; optional for a built-in model")
        adding.add_argument("--title", default="")
        adding.add_argument(
            "--revision", default="main", help="branch, tag or commit, for a Hub ID"
        )
        adding.add_argument("--chat-template", default="", help=TEMPLATES)
        averaging = verbs.add_parser(
            "average", help="create a policy from the mean of two sets of weights"
        )
        averaging.add_argument(
            "first", help="slug of a policy, or RUN@VERSION for a weight version of a run"
        )
        averaging.add_argument("second", help="the second set of weights, named in the same way")
        averaging.add_argument("--slug", required=True, help="name of the new policy")
        averaging.add_argument("--title", default="")
        averaging.add_argument(
            "--share", type=float, default=0.5, help="weight of the first; the second gets the rest"
        )
        listing = verbs.add_parser("list", help="list policies")
        for verb in (adding, averaging, listing):
            verb.add_argument(
                "--project", help="slug of the project; optional if there is only one"
            )

    def handle(self, **options: Any) -> None:
        {"add": self._add, "average": self._average, "list": self._list}[options["verb"]](options)

    def _add(self, options: dict) -> None:
        project = project_named(options["project"])
        source = options["source"]
        try:
            kind_of(source)
        except NoModel as refusal:
            raise CommandError(f"{source}: {refusal}") from None
        slug = options["slug"] or _own_name(source)
        folder = _new_folder(project, slug)
        origin = adopt_folder(source, options["revision"], folder, options["chat_template"])
        self._register(project, slug, folder, options["title"], **origin)

    def _average(self, options: dict) -> None:
        project = project_named(options["project"])
        slug = options["slug"]
        folder = _new_folder(project, slug)
        first, second = (
            weights_named(project, name) for name in (options["first"], options["second"])
        )
        average_folders(first, second, options["share"], folder)
        source = (
            f"{options['share']:g} × {options['first']} + {1 - options['share']:g} ×"
            f" {options['second']}"
        )
        self._register(project, slug, folder, options["title"], source)

    def _register(
        self,
        project: Project,
        slug: str,
        folder: Path,
        title: str,
        source: str,
        licence: str = "",
    ) -> None:
        """Register the folder that a worker's process has just sealed."""
        try:
            sealed = read_manifest(folder)
            policy = register_policy(
                project, slug, folder, source, title, licence=licence, sealed=sealed
            )
        except DamagedWeights as damage:
            raise CommandError(f"{folder}: {damage}") from None
        except IntegrityError:
            raise CommandError(f"--slug: policy {slug!r} was added in the meantime") from None
        seeing = ", sees pictures" if policy.sees_pictures else ""
        licensed = f", {policy.licence}" if policy.licence else ""
        size = f"{policy.parameters:,} parameters"
        summary = f"policy {policy.slug}: {policy.architecture}, {size}{seeing}{licensed}"
        self.stdout.write(self.style.SUCCESS(summary))

    def _list(self, options: dict) -> None:
        policies = Policy.objects.select_related("project").order_by("-pk")
        if options["project"]:
            policies = policies.filter(project=project_named(options["project"]))
        for policy in policies:
            self.stdout.write(
                f"{policy.project.slug:15} {policy.slug:25} {policy.parameters:>14,} parameters  "
                f" {policy.source}"
            )


def _new_folder(project: Project, slug: str) -> Path:
    """Return the folder of a new policy. Raise CommandError for a name that it cannot have."""
    if not SLUG.fullmatch(slug):
        raise CommandError(f"--slug: is {slug!r}; it must be 1 to 50 letters, digits, - and _")
    if project.policies.filter(slug=slug).exists():
        raise CommandError(f"--slug: policy {slug!r} already exists; choose another name")
    return settings.WEIGHTS_ROOT / "policies" / f"{project.slug}-{slug}"


def weights_named(project: Project, name: str) -> Path:
    """Return the folder of a policy, or of a run's weight version (RUN@VERSION).

    Raises CommandError, also if the version's folder is gone.
    """
    slug, _, number = name.partition("@")
    if not number:
        policy = project.policies.filter(slug=slug).first()
        if policy is None:
            raise CommandError(
                f"{name}: there is no policy {slug!r}; name the weights of a run as RUN@VERSION"
            )
        return Path(policy.folder)
    version = WeightVersion.objects.filter(
        run=run_named(slug, project.slug), version=int(number) if number.isdigit() else -1
    ).first()
    if version is None or version.state != WeightVersion.State.PUBLISHED:
        published = run_named(slug, project.slug).weight_versions.filter(
            state=WeightVersion.State.PUBLISHED
        )
        numbers = ", ".join(
            map(str, published.order_by("version").values_list("version", flat=True))
        )
        raise CommandError(
            f"{name}: its files are not available; run {slug} keeps versions {numbers}"
        )
    return Path(version.folder)


def adopt_folder(
    source: str, revision: str, folder: Path, chat_template: str = ""
) -> dict[str, str]:
    """Seal a checked copy at `folder`; return its source and licence as text.

    Raises CommandError; the worker has printed the reason on standard error.
    """
    arguments = ["--chat-template", _from_here(chat_template)] if chat_template else []
    arguments += ["--revision", revision, "--cache", str(settings.VAR / "models")]
    process = _worker("adopt", _from_here(source), *arguments, "--out", str(folder))
    if process.returncode:
        raise CommandError(f"{source} was not added")
    origin = json.loads(process.stdout)
    return origin | {"source": source} if Path(source).exists() else origin


def _from_here(name: str) -> str:
    """Return the absolute path of an existing file or folder; other names unchanged."""
    path = Path(name)
    return str(path.absolute()) if path.exists() else name


def _own_name(source: str) -> str:
    """Return the slug of a model known by name. Raise CommandError for other sources."""
    if Path(source).exists() or "/" in source:
        raise CommandError("--slug: a name is required")
    return source


def average_folders(first: Path, second: Path, share: float, folder: Path) -> None:
    """Seal the mean of two sets of weights at `folder`. Raise CommandError."""
    arguments = ["--share", str(share), "--out", str(folder)]
    if _worker("average", str(first), str(second), *arguments).returncode:
        raise CommandError("the two were not averaged")


def _worker(module: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run a module in a separate worker process; return its output and exit code.

    Models are loaded only in such processes. Its standard error is shown as it comes.
    """
    command = [sys.executable, "-m", f"workers.policies.{module}", *arguments]
    return subprocess.run(
        command, cwd=settings.BASE_DIR, check=False, stdout=subprocess.PIPE, text=True
    )
