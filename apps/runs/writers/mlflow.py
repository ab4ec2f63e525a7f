"""MLflow target: the project is an experiment, the run is an MLflow run, found by a tag.

Another tag records how far it is written.
"""

from itertools import islice
from typing import Any

from apps.runs.changing import flat
from apps.runs.models import Run
from apps.runs.writers.contract import NoTarget, Step, package

OURS = "rftweb.run"
WRITTEN = "rftweb.step"
METRICS_AT_ONCE = 1_000
PARAMS_AT_ONCE = 100
MAX_PARAM_LENGTH = 500  # what a server takes in one request


class MLflow:
    """MLflow target. Sending a step twice is harmless.

    The server identifies a metric by name, step, time and value.
    """

    def __init__(self, run: Run, uri: str) -> None:
        self.entities = package("mlflow.entities", "mlflow")
        tracking = package("mlflow.tracking", "mlflow")
        self.failed = package("mlflow.exceptions", "mlflow").MlflowException
        try:
            self.client = tracking.MlflowClient(tracking_uri=uri)
            self.id = self._find_run(run) or self._create_run(run)
        except self.failed as error:
            raise NoTarget(f"--uri: {error}") from None

    def _find_run(self, run: Run) -> str | None:
        experiment = self.client.get_experiment_by_name(run.project.slug)
        if experiment is None:
            return None
        runs = self.client.search_runs(
            [experiment.experiment_id], f"tags.`{OURS}` = '{run.pk}'", max_results=1
        )
        return runs[0].info.run_id if runs else None

    def _create_run(self, run: Run) -> str:
        experiment = self.client.get_experiment_by_name(run.project.slug)
        home = (
            experiment.experiment_id
            if experiment
            else self.client.create_experiment(run.project.slug)
        )
        run_id: str = self.client.create_run(
            home, run_name=run.slug, tags={OURS: str(run.pk), WRITTEN: "0"}
        ).info.run_id
        params = iter(
            [
                self.entities.Param(name, str(value)[:MAX_PARAM_LENGTH])
                for name, value in flat(run.config).items()
            ]
        )
        while some := list(islice(params, PARAMS_AT_ONCE)):
            self.client.log_batch(run_id, params=some)
        return run_id

    def last_step(self) -> int:
        return int(self.client.get_run(self.id).data.tags[WRITTEN])

    def write(self, steps: list[Step]) -> None:
        pending: list[Any] = []  # metrics of the library, which is not read here
        for step in steps:
            metrics = [
                self.entities.Metric(name, value, int(step.at.timestamp() * 1000), step.number)
                for name, value in step.metrics.items()
            ]
            if pending and len(pending) + len(metrics) > METRICS_AT_ONCE:
                self._send(pending)
                pending = []
            pending += metrics
        self._send(pending)

    def _send(self, metrics: list[Any]) -> None:
        """Send whole steps; the last request also stores how far they reach."""
        try:
            for first in range(0, len(metrics), METRICS_AT_ONCE):
                some = metrics[first : first + METRICS_AT_ONCE]
                is_last = first + METRICS_AT_ONCE >= len(metrics)
                tags = [self.entities.RunTag(WRITTEN, str(metrics[-1].step))] if is_last else []
                self.client.log_batch(self.id, metrics=some, tags=tags)
        except self.failed as error:
            raise NoTarget(f"--uri: {error}") from None

    def close(self, is_over: bool) -> None:
        if is_over:
            self.client.set_terminated(self.id)
