"""Figures of a run: export them as a file, CSV or Parquet."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from apps.runs.exporting.reading import Figures
from apps.runs.exporting.writing import CSV, FORMATS, SHAPES, figures_file, figures_name
from rftweb.management.console import run_named


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        exporting = verbs.add_parser("export", help="write them to a file")
        exporting.add_argument("run", help="slug of the run")
        exporting.add_argument("--format", choices=sorted(FORMATS), default=CSV)
        exporting.add_argument("--shape", choices=SHAPES, default="long", help="a row for each figure, or for each step")
        exporting.add_argument("--names", default="", help="comma-separated; left out, all")
        exporting.add_argument("--after", type=int, default=0, metavar="STEP", help="only of the steps above this one")
        exporting.add_argument("--out", type=Path, help="the file (default: PROJECT-RUN-metrics-SHAPE.FORMAT in this folder)")
        for verb in (exporting,):
            verb.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        run = run_named(options["run"], options["project"])
        self._export(run, options)

    def _export(self, run, options: dict) -> None:
        shape, form = options["shape"], options["format"]
        figures = Figures(run, options["after"], tuple(name for name in options["names"].split(",") if name))
        path: Path = options["out"] or Path(figures_name(run, shape, form))
        size = 0
        try:
            with path.open("xb") as stream:
                for piece in figures_file(figures, shape, form):
                    size += stream.write(piece)
        except FileExistsError:
            raise CommandError(f"--out: {path} is there already; choose another") from None
        except OSError as error:
            raise CommandError(f"--out: {error}") from None
        said = f"{len(figures.names)} figures up to step {figures.last_step} in {path}, {size:,} bytes"
        self.stdout.write(self.style.SUCCESS(said))
