"""Weight versions: `weights export RUN VERSION FOLDER` writes one as a standard Hugging Face folder, an adapter merged."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import AuditEntry
from apps.policies.copying import NotCopied
from apps.policies.damage import DamagedWeights
from apps.policies.exporting import export
from apps.policies.manifest import read_manifest
from apps.runs.model_card import card_of
from rftweb.management.console import run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        exporting = verbs.add_parser("export", help="write a version as a folder that transformers loads")
        exporting.add_argument("run", help="slug of the run")
        exporting.add_argument("version", type=int)
        exporting.add_argument("folder", type=Path, help="where to; must not be there yet")
        exporting.add_argument("--project")

    def handle(self, **options: object) -> None:
        run = run_named(options["run"], options["project"])
        versions = run.weight_versions.select_related("run__project", "run__policy", "parent")
        version = versions.filter(version=options["version"]).first()
        if version is None or not version.has_folder:
            known = ", ".join(str(one.version) for one in run.weight_versions.order_by("version") if one.has_folder)
            raise CommandError(f"run {run.slug} has no version {options['version']} that still has its folder; it has {known}")
        source, folder = Path(version.folder), options["folder"].resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            size = export(source, folder, card_of(version, read_manifest(source)))
        except (NotCopied, DamagedWeights, OSError) as error:
            raise CommandError(str(error)) from None
        AuditEntry.record("weight version exported", version.address, None, run.project, folder=str(folder))
        self.stdout.write(self.style.SUCCESS(f"{version.address}: {size / 1e6:.1f} MB in {folder}"))
