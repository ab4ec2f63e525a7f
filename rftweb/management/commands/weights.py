"""Weight versions: `weights export RUN VERSION FOLDER`, `weights push RUN VERSION OWNER/NAME`."""

import getpass
import re
import shutil
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import AuditEntry
from apps.policies.as_gguf import KINDS
from apps.policies.copying import NotCopied
from apps.policies.damage import DamagedWeights
from apps.runs.hub_names import OWNER_NAME, REPOSITORY
from apps.runs.models import NotPossible, WeightVersion
from apps.runs.models.orders import ADAPTER, FOLDER
from apps.runs.weight_downloads import name_of_form, write_form
from rftweb.management.console import run_named
from workers.exporting.destination import Destination, NotPushed, Progress, push_folder

REFUSALS = (NotCopied, DamagedWeights, NotPossible, OSError)


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        exporting = verbs.add_parser(
            "export", help="write a version to a folder for other programs"
        )
        pushing = verbs.add_parser("push", help="send a version to the Hugging Face Hub")
        for subparser in (exporting, pushing):
            subparser.add_argument("run", help="slug of the run")
            subparser.add_argument("version", type=int)
            subparser.add_argument("--project")
            subparser.add_argument("--form", choices=[FOLDER, *KINDS, ADAPTER], default=FOLDER)
        exporting.add_argument("folder", type=Path, help="folder to write; it must not exist")
        pushing.add_argument("repository", help="owner/name; created if it does not exist")
        pushing.add_argument("--public", action="store_true", help="make the repository public")

    def handle(self, **options: Any) -> None:
        version = _version(options)
        if options["verb"] == "push":
            self._push(version, options)
        else:
            self._export(version, options["form"], options["folder"].resolve())

    def _export(self, version: WeightVersion, form: str, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        size = _written(version, form, folder)
        project = version.run.project
        document = {"folder": str(folder), "form": form}
        AuditEntry.record("weight version exported", version.address, None, project, **document)
        self._write_success(f"{version.address}: {size / 1e6:.1f} MB in {folder}")

    def _push(self, version: WeightVersion, options: dict) -> None:
        """Push a version to the Hub.

        A missing token is asked for: on a command line everybody could read it.
        """
        repository = options["repository"]
        form = options["form"]
        is_public = options["public"]
        if not re.fullmatch(REPOSITORY, repository):
            raise CommandError(f"repository: {repository!r} is not a valid name. {OWNER_NAME}")
        token = settings.HUB_TOKEN or getpass.getpass("Hugging Face token: ").strip()
        if not token:
            raise CommandError("token: none was entered, and RFTWEB_HUB_TOKEN is not set")
        settings.WEIGHTS_ROOT.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix="push-", dir=settings.WEIGHTS_ROOT))
        try:
            folder = place / name_of_form(version, form)
            size = _written(version, form, folder)
            self.stdout.write(f"{version.address}: sending {size / 1e6:.1f} MB to {repository}")
            to = Destination(repository, token, not is_public, settings.HUB_ENDPOINT)
            address = push_folder(folder, to, f"{version.address}, {form}", Progress(size))
        except NotPushed as error:
            raise CommandError(str(error)) from None
        finally:
            shutil.rmtree(place, ignore_errors=True)
        document = {
            "repository": repository,
            "form": form,
            "commit": address,
            "is_public": is_public,
        }
        project = version.run.project
        AuditEntry.record("weight version pushed", version.address, None, project, **document)
        self._write_success(f"{version.address}: {address}")

    def _write_success(self, text: str) -> None:
        self.stdout.write(self.style.SUCCESS(text))


def _version(options: dict) -> WeightVersion:
    """Return the version. Raise CommandError if it does not exist or has no folder."""
    run = run_named(options["run"], options["project"])
    versions = run.weight_versions.select_related("run__project", "run__policy", "parent")
    version = versions.filter(version=options["version"]).first()
    if version is None or not version.has_folder:
        stored = [row for row in run.weight_versions.order_by("version") if row.has_folder]
        numbers = ", ".join(str(row.version) for row in stored)
        raise CommandError(
            f"run {run.slug} has no version {options['version']} whose files are kept; it has "
            f"{numbers}"
        )
    return version


def _written(version: WeightVersion, form: str, folder: Path) -> int:
    try:
        return write_form(version, form, folder)
    except REFUSALS as error:
        raise CommandError(str(error)) from None
