"""Figures of a run: export them as a file, or write them to TensorBoard, MLflow or Weights & Biases, once or as they come."""

import time
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from apps.runs.exporting.reading import Figures
from apps.runs.exporting.writing import CSV, FORMATS, SHAPES, figures_file, figures_name
from apps.runs.models import Run
from apps.runs.writers.contract import NoTarget, Target
from apps.runs.writers.following import hand_over
from apps.runs.writers.mlflow import MLflow
from apps.runs.writers.tensorboard import TensorBoard
from apps.runs.writers.wandb import WandB
from rftweb.management.commands.runs import reread
from rftweb.management.console import bar, run_named

POLL_S = 2.0
NEEDED = {"tensorboard": "folder", "mlflow": "uri", "wandb": "into"}  # the option that each cannot do without


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
        writing = verbs.add_parser("write", help="hand them to another tool: the steps that it has not got yet")
        writing.add_argument("run", help="slug of the run")
        writing.add_argument("--to", choices=sorted(NEEDED), required=True)
        writing.add_argument("--folder", type=Path, help="tensorboard: where its files go; wandb: its own (default: this one)")
        writing.add_argument("--uri", help="mlflow: the tracking server, such as http://127.0.0.1:5000")
        writing.add_argument("--into", metavar="NAME", help="wandb: its project")
        writing.add_argument("--entity", help="wandb: its team or user")
        writing.add_argument("--offline", action="store_true", help="wandb: into a folder, for `wandb sync`")
        writing.add_argument("--follow", action="store_true", help="go on with each new step until the run ends")
        for verb in (exporting, writing):
            verb.add_argument("--project", help="slug of the project; may be left out when there is one")

    def handle(self, **options: object) -> None:
        run = run_named(options["run"], options["project"])
        self._export(run, options) if options["verb"] == "export" else self._write(run, options)

    def _write(self, run: Run, options: dict) -> None:
        needed = NEEDED[options["to"]]
        if options[needed] is None:
            raise CommandError(f"--{needed}: say it, for --to {options['to']}")
        try:
            count = self._handed_over(run, opened(run, options), options["follow"])
        except NoTarget as why:
            raise CommandError(str(why)) from None
        self.stdout.write(self.style.SUCCESS(f"{count} steps of {run.slug} written to {options['to']}"))

    def _handed_over(self, run: Run, target: Target, follow: bool) -> int:
        count = 0
        try:
            with bar(run.slug, run.planned_steps) as at:
                while True:
                    reread(run)
                    is_over = run.state in Run.ENDED  # before it is read: what came until then is handed over
                    count += hand_over(run, target, at)
                    if is_over or not follow:
                        break
                    time.sleep(POLL_S)
        except KeyboardInterrupt:
            self.stdout.write("stopped; say the same again to go on")
        finally:
            target.close(run.state in Run.ENDED)
        return count

    def _export(self, run: Run, options: dict) -> None:
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


def opened(run: Run, options: dict) -> Target:
    """Raises NoTarget."""
    if options["to"] == "tensorboard":
        return TensorBoard(run, options["folder"])
    if options["to"] == "mlflow":
        return MLflow(run, options["uri"])
    return WandB(run, options["into"], options["entity"], options["folder"] or Path(), options["offline"])
