"""Policies: add a model folder or a hub id, average two, list."""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from apps.accounts.models import Project
from apps.policies.manifest import DamagedWeights
from apps.policies.models import Policy
from apps.policies.registering import register
from apps.runs.models import WeightVersion
from rftweb.management.console import project_named, run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        adding = verbs.add_parser("add", help="check a model, seal a copy of it and make it known")
        adding.add_argument("source", help="a folder with safetensors, or a hub id such as owner/name")
        adding.add_argument("--slug", required=True, help="name of the policy")
        adding.add_argument("--title", default="")
        adding.add_argument("--revision", default="main", help="branch, tag or commit, for a hub id")
        averaging = verbs.add_parser("average", help="make a policy of the mean of two sets of weights")
        averaging.add_argument("first", help="a policy's slug, or RUN@VERSION for a run's weight version")
        averaging.add_argument("second", help="likewise")
        averaging.add_argument("--slug", required=True, help="name of the new policy")
        averaging.add_argument("--title", default="")
        averaging.add_argument("--share", type=float, default=0.5, help="of the first; the second has the rest")
        listing = verbs.add_parser("list", help="show what there is")
        for verb in (adding, averaging, listing):
            verb.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        {"add": self._add, "average": self._average, "list": self._list}[options["verb"]](options)

    def _add(self, options: dict) -> None:
        project, slug = project_named(options["project"]), options["slug"]
        folder = _new_folder(project, slug)
        adopt(options["source"], options["revision"], folder)
        self._register(project, slug, folder, options["source"], options["title"])

    def _average(self, options: dict) -> None:
        project, slug = project_named(options["project"]), options["slug"]
        folder = _new_folder(project, slug)
        first, second = (weights_named(project, name) for name in (options["first"], options["second"]))
        average(first, second, options["share"], folder)
        source = f"{options['share']:g} × {options['first']} + {1 - options['share']:g} × {options['second']}"
        self._register(project, slug, folder, source, options["title"])

    def _register(self, project: Project, slug: str, folder: Path, source: str, title: str) -> None:
        try:
            policy = register(project, slug, folder, source, title)
        except DamagedWeights as damage:
            raise CommandError(f"{folder}: {damage}") from None
        except IntegrityError:
            raise CommandError(f"--slug: a policy {slug!r} was added meanwhile") from None
        seeing = ", sees pictures" if policy.sees_pictures else ""
        made = f"policy {policy.slug}: {policy.architecture}, {policy.parameters:,} parameters{seeing}"
        self.stdout.write(self.style.SUCCESS(made))

    def _list(self, options: dict) -> None:
        policies = Policy.objects.select_related("project").order_by("-pk")
        if options["project"]:
            policies = policies.filter(project=project_named(options["project"]))
        for policy in policies:
            self.stdout.write(f"{policy.project.slug:15} {policy.slug:25} {policy.parameters:>14,} parameters   {policy.source}")


def _new_folder(project: Project, slug: str) -> Path:
    if project.policies.filter(slug=slug).exists():
        raise CommandError(f"--slug: a policy {slug!r} is there already; choose another")
    return settings.WEIGHTS_ROOT / "policies" / f"{project.slug}-{slug}"


def weights_named(project: Project, name: str) -> Path:
    """The folder of a policy, or of a run's weight version (RUN@VERSION) that still has one. Raises CommandError."""
    slug, _, number = name.partition("@")
    if not number:
        policy = project.policies.filter(slug=slug).first()
        if policy is None:
            raise CommandError(f"{name}: no policy {slug!r}; a run's weights are named RUN@VERSION")
        return Path(policy.folder)
    version = WeightVersion.objects.filter(
        run=run_named(slug, project.slug), version=int(number) if number.isdigit() else -1
    ).first()
    if version is None or version.state != WeightVersion.State.PUBLISHED:
        kept = run_named(slug, project.slug).weight_versions.filter(state=WeightVersion.State.PUBLISHED)
        numbers = ", ".join(map(str, kept.order_by("version").values_list("version", flat=True)))
        raise CommandError(f"{name}: has no folder any more, or never had; run {slug} keeps versions {numbers}")
    return Path(version.folder)


def adopt(source: str, revision: str, folder: Path) -> None:
    """Seal a checked copy at `folder`. Raises CommandError."""
    if _worker("adopt", source, "--revision", revision, "--out", str(folder)):
        raise CommandError(f"{source} was not added")


def average(first: Path, second: Path, share: float, folder: Path) -> None:
    """Seal the mean of two sets of weights at `folder`. Raises CommandError."""
    if _worker("average", str(first), str(second), "--share", str(share), "--out", str(folder)):
        raise CommandError("the two were not averaged")


def _worker(module: str, *arguments: str) -> int:
    """Run it in a worker process of its own (models load there alone); its exit code."""
    return subprocess.run(
        [sys.executable, "-m", f"workers.policies.{module}", *arguments], cwd=settings.BASE_DIR, check=False
    ).returncode
