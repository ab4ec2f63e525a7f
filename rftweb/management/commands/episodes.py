"""Export a run's episodes in the verifiers package's format, or import a file as a new run."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import Project
from apps.accounts.redacting import Redactor
from apps.environments.traces.exporting import write_trace_lines
from apps.environments.traces.importing import Destination, import_episodes
from apps.environments.traces.looking import BadEpisodes
from apps.policies.models import Policy
from apps.runs.config import ConfigError
from rftweb.management.console import REDACT, explained, project_named, run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        exporting = verbs.add_parser(
            "export", help="write episodes to standard output, one per line"
        )
        exporting.add_argument("run", help="slug of the run")
        exporting.add_argument("--project")
        exporting.add_argument("--redact", action="store_true", help=REDACT)
        importing = verbs.add_parser(
            "import", help="create a run from a file, completely or not at all"
        )
        importing.add_argument("project", help="slug of the project")
        importing.add_argument("file", type=Path)
        importing.add_argument("--run", help="slug of the new run (default: the file's name)")
        importing.add_argument(
            "--policy",
            help="slug of the policy to train; optional if there is only one",
        )
        importing.add_argument(
            "--environment",
            default="",
            help="the policy of this project that the file names differently",
        )
        importing.add_argument(
            "--same-tokenizer",
            action="store_true",
            help="the tokens are the policy's, although the file does not say so",
        )
        importing.add_argument(
            "--config",
            type=Path,
            help="YAML with fields of the run's configuration, such as algorithm",
        )

    def handle(self, **options: Any) -> None:
        {"export": self._export, "import": self._import}[options["verb"]](options)

    def _export(self, options: dict) -> None:
        redactor = Redactor() if options["redact"] else None
        for line in write_trace_lines(run_named(options["run"], options["project"]), redactor):
            self.stdout.write(line.decode(), ending="")
        if redactor:
            self.stderr.write(f"redacted: {redactor.words}")

    def _import(self, options: dict) -> None:
        project = project_named(options["project"])
        path = options["file"]
        to = Destination(
            project,
            options["run"] or path.stem,
            _policy(project, options["policy"]),
            options["environment"],
            options["same_tokenizer"],
            _changes(options["config"]),
        )
        try:
            result = import_episodes(path, to)
        except (BadEpisodes, OSError) as refusal:
            raise CommandError(f"nothing was stored:\n{refusal}") from None
        except ConfigError as error:
            raise explained(error) from None
        self.stdout.write(
            self.style.SUCCESS(
                f"run {result.run.slug}: {result.episodes} episodes in {result.groups} groups; "
                f"{result.admitted} can be used for training, in {result.run.planned_steps} steps; "
                f"start it with `manage.py runs start {result.run.slug}`"
            )
        )


def _policy(project: Project, slug: str | None) -> Policy:
    policies = list(project.policies.filter(**({"slug": slug} if slug else {})))
    if len(policies) == 1:
        return policies[0]
    slugs = ", ".join(project.policies.values_list("slug", flat=True)) or "none"
    raise CommandError(
        f"--policy: {f'no policy {slug!r}' if slug else 'name one'}; there are: {slugs}"
    )


def _changes(path: Path | None) -> dict:
    if path is None:
        return {}
    try:
        changes = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise CommandError(f"--config: {error}") from None
    if not isinstance(changes, dict):
        raise CommandError("--config: must be a mapping of fields")
    return changes
