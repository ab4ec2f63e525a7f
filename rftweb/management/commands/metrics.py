"""Export a run's metrics to a file, TensorBoard, MLflow or Weights & Biases."""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.runs.exporting.reading import RunMetrics
from apps.runs.exporting.writing import CSV, FORMATS, SHAPES, metrics_file, metrics_file_name
from apps.runs.models import Run
from apps.runs.writers.contract import NoTarget, Target
from apps.runs.writers.following import hand_over
from apps.runs.writers.mlflow import MLflow
from apps.runs.writers.tensorboard import TensorBoard
from apps.runs.writers.wandb import WandB
from rftweb.management.commands.runs import reread
from rftweb.management.console import run_named, show_progress_bar

POLL_S = 2.0
NEEDED = {
    "tensorboard": "folder",
    "mlflow": "uri",
    "wandb": "wandb_project",
}  # the option that each target requires


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        exporting = verbs.add_parser("export", help="write metrics to a file")
        exporting.add_argument("run", help="slug of the run")
        exporting.add_argument("--format", choices=sorted(FORMATS), default=CSV)
        exporting.add_argument(
            "--shape",
            choices=SHAPES,
            default="long",
            help="one row per metric or one row per step",
        )
        exporting.add_argument("--names", default="", help="comma-separated names; default: all")
        exporting.add_argument(
            "--after", type=int, default=0, metavar="STEP", help="only steps after this one"
        )
        exporting.add_argument(
            "--out",
            type=Path,
            help="file to write (default: PROJECT-RUN-metrics-SHAPE.FORMAT in this folder)",
        )
        writing = verbs.add_parser("write", help="send new steps to another tool")
        writing.add_argument("run", help="slug of the run")
        writing.add_argument("--target", choices=sorted(NEEDED), required=True)
        writing.add_argument(
            "--folder",
            type=Path,
            help="tensorboard: folder for its files; wandb: its folder (default: this one)",
        )
        writing.add_argument(
            "--uri", help="mlflow: address of the tracking server, such as http://127.0.0.1:5000"
        )
        writing.add_argument("--wandb-project", metavar="NAME", help="wandb: project")
        writing.add_argument("--entity", help="wandb: team or user")
        writing.add_argument(
            "--offline", action="store_true", help="wandb: write to a folder for `wandb sync`"
        )
        writing.add_argument(
            "--follow", action="store_true", help="continue with each new step until the run ends"
        )
        for verb in (exporting, writing):
            verb.add_argument(
                "--project", help="slug of the project; optional if there is only one"
            )

    def handle(self, **options: Any) -> None:
        run = run_named(options["run"], options["project"])
        self._export(run, options) if options["verb"] == "export" else self._write(run, options)

    def _write(self, run: Run, options: dict) -> None:
        needed = NEEDED[options["target"]]
        if options[needed] is None:
            raise CommandError(
                f"--{needed.replace('_', '-')}: required for --target {options['target']}"
            )
        try:
            count = self._handed_over(run, open_target(run, options), options["follow"])
        except NoTarget as why:
            raise CommandError(str(why)) from None
        self.stdout.write(
            self.style.SUCCESS(f"{count} steps of {run.slug} written to {options['target']}")
        )

    def _handed_over(self, run: Run, target: Target, follow: bool) -> int:
        count = 0
        try:
            with show_progress_bar(run.slug, run.planned_steps) as at:
                while True:
                    reread(run)
                    is_over = (
                        run.state in Run.ENDED
                    )  # before reading: everything until then is sent
                    count += hand_over(run, target, at)
                    if is_over or not follow:
                        break
                    time.sleep(POLL_S)
        except KeyboardInterrupt:
            self.stdout.write("stopped; run the command again to continue")
        finally:
            target.close(run.state in Run.ENDED)
        return count

    def _export(self, run: Run, options: dict) -> None:
        shape = options["shape"]
        form = options["format"]
        metrics = RunMetrics(
            run, options["after"], tuple(name for name in options["names"].split(",") if name)
        )
        path: Path = options["out"] or Path(metrics_file_name(run, shape, form))
        size = 0
        try:
            with path.open("xb") as stream:
                for piece in metrics_file(metrics, shape, form):
                    size += stream.write(piece)
        except FileExistsError:
            raise CommandError(f"--out: {path} already exists; choose another file") from None
        except OSError as error:
            raise CommandError(f"--out: {error}") from None
        message = (
            f"{len(metrics.names)} metrics up to step {metrics.last_step} in {path}, {size:,} bytes"
        )
        self.stdout.write(self.style.SUCCESS(message))


def open_target(run: Run, options: dict) -> Target:
    """Open the target of the export. Raise NoTarget."""
    if options["target"] == "tensorboard":
        return TensorBoard(run, options["folder"])
    if options["target"] == "mlflow":
        return MLflow(run, options["uri"])
    return WandB(
        run,
        options["wandb_project"],
        options["entity"],
        options["folder"] or Path(),
        options["offline"],
    )
