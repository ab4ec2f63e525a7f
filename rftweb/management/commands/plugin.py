"""Plugins: write an example with its test, or list all parts with where they are from."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.plugins.registry import REGISTRY, SETTING, Entry
from apps.plugins.sources import NAME

TEMPLATES = Path(__file__).resolve().parents[1] / "plugin_templates"
KINDS = (
    "scorer",
    "operator",
    "generator",
    "dataset_source",
    "rating_form",
    "environment",
    "advantage",
    "loss",
    "rater_model",
    "alert_channel",
)


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        new = verbs.add_parser("new", help="write a working example and its test")
        new.add_argument("kind", choices=KINDS)
        new.add_argument("name", help="its name: small letters, digits and _")
        new.add_argument("--out", type=Path, help=f"folder to write to (default: {SETTING})")
        listing = verbs.add_parser("list", help="show all parts that plugins can add, with our own")
        listing.add_argument("--json", action="store_true", help="print it for programs")

    def handle(self, **options) -> None:
        if options["verb"] == "new":
            self._write(options["kind"], options["name"], options["out"] or settings.PLUGINS)
        else:
            self._list(as_json=options["json"])

    def _write(self, kind: str, name: str, folder: Path | None) -> None:
        if folder is None:
            raise CommandError(f"say where: --out FOLDER, or set {SETTING}")
        if not NAME.fullmatch(name) or name.startswith("test_") or name == "conftest":
            raise CommandError(
                f"{name!r} is no name of a plugin: it must begin with a small letter, not with"
                " test_, and have small letters, digits and _"
            )
        if any(entry.kind == kind and entry.name == name for entry in REGISTRY.entries()):
            raise CommandError(f"there is a {kind.replace('_', ' ')} {name!r}: choose another name")
        files = dict(_files_of(kind, name, folder))
        if existing := [path for path in files if path.exists()]:
            raise CommandError(f"{existing[0]} is there already")
        for path, template in files.items():
            self._copy(template, path, name)
        self.stdout.write(f"Test it: python -m pytest {folder / 'tests' / f'test_{name}.py'}")
        if folder.resolve() != settings.PLUGINS:
            self.stdout.write(f"Install it: set {SETTING}={folder.resolve()} for all processes.")
        self.stdout.write("Restart the processes, then look with `manage.py plugin list`.")

    def _copy(self, template: Path, path: Path, name: str) -> None:
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.write_text(template.read_text().replace("NAME", name))
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error}") from None
        self.stdout.write(f"Wrote {path}")

    def _list(self, as_json: bool) -> None:
        entries = sorted(REGISTRY.entries(), key=lambda entry: (entry.kind, entry.name))
        if as_json:
            documents = [{**asdict(entry), "state": entry.state} for entry in entries]
            self.stdout.write(json.dumps(documents, indent=2))
            return
        rows = [_row(entry) for entry in entries]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            self.stdout.write("  ".join([*cells, row[4]]))


def _files_of(kind: str, name: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each file to write, with its template: of one module, or of a folder."""
    if (TEMPLATES / kind).is_dir():
        for template in sorted((TEMPLATES / kind).iterdir()):
            yield folder / name / template.stem, template
    else:
        yield folder / f"{name}.py", TEMPLATES / f"{kind}.txt"
    yield folder / "tests" / f"test_{name}.py", TEMPLATES / f"{kind}_test.txt"


def _row(entry: Entry) -> tuple[str, ...]:
    version = "-" if entry.refused else str(entry.version)
    state = f"{entry.state}: {entry.refused}" if entry.refused else entry.state
    return (entry.kind or "-", entry.name, version, entry.origin, state)
