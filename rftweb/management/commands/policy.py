"""Policies: add a model folder or a hub id, list."""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from apps.policies.manifest import DamagedWeights
from apps.policies.models import Policy
from apps.policies.registering import register
from rftweb.management.console import project_named


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
        listing = verbs.add_parser("list", help="show what there is")
        for verb in (adding, listing):
            verb.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        {"add": self._add, "list": self._list}[options["verb"]](options)

    def _add(self, options: dict) -> None:
        project, slug = project_named(options["project"]), options["slug"]
        if project.policies.filter(slug=slug).exists():
            raise CommandError(f"--slug: a policy {slug!r} is there already; choose another")
        folder = settings.WEIGHTS_ROOT / "policies" / f"{project.slug}-{slug}"
        adopt(options["source"], options["revision"], folder)
        try:
            policy = register(project, slug, folder, options["source"], options["title"])
        except DamagedWeights as damage:
            raise CommandError(f"{folder}: {damage}") from None
        except IntegrityError:
            raise CommandError(f"--slug: a policy {slug!r} was added meanwhile") from None
        self.stdout.write(self.style.SUCCESS(f"policy {policy.slug}: {policy.architecture}, {policy.parameters:,} parameters"))

    def _list(self, options: dict) -> None:
        policies = Policy.objects.select_related("project").order_by("-pk")
        if options["project"]:
            policies = policies.filter(project=project_named(options["project"]))
        for policy in policies:
            self.stdout.write(f"{policy.project.slug:15} {policy.slug:25} {policy.parameters:>14,} parameters   {policy.source}")


def adopt(source: str, revision: str, folder: Path) -> None:
    """Seal a checked copy at `folder`, in a worker process of its own (models load there alone). Raises CommandError."""
    command = [sys.executable, "-m", "workers.policies.adopt", source, "--revision", revision, "--out", str(folder)]
    if subprocess.run(command, cwd=settings.BASE_DIR, check=False).returncode:
        raise CommandError(f"{source} was not added")
