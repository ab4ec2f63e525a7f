"""Train a run that replays recorded data, whose groups were sampled by another run.

The data is copied first. Then the refiner judges it again, because scorers may have changed. Then
the steps with something left to learn from are numbered. The trainer is built last, because only
then its plan is known.
"""

from collections.abc import Sequence
from contextlib import suppress

import structlog

from apps.buffer.models import Experience, number_steps, plan_recorded, replays
from apps.lineage.replaying.copying import copy_recorded
from apps.pipelines.batching import treat
from apps.pipelines.crediting import credit_batch
from apps.runs.models import NotPossible, Run, TrainStep
from apps.streaming import worker_notifications
from workers.trainer import metrics, weight_store
from workers.trainer.host import TrainerHost
from workers.trainer.run_trainer import ExperienceRunTrainer
from workers.trainer.runs_to_train import cause_of_replay

log = structlog.get_logger(__name__)


class ReplayRunTrainer(ExperienceRunTrainer):
    """Trainer of a replay.

    `is_ready`: the steps are numbered and the model is loaded.
    """

    is_ready = False

    def open(self) -> None:
        """Copy the recorded data, once. Raises StaleFence."""
        if not replays.is_copied(self.run):
            copied = copy_recorded(self.run, self.fence)
            log.info(
                "recorded_data_copied", run=self.run, groups=copied.groups, rollouts=copied.rollouts
            )
            worker_notifications.notify_workers("refine")
        self._make_ready()

    def step(self) -> bool:
        self.run.refresh_from_db()
        return super().step() if self.is_ready or self._make_ready() else self.wait()

    def _make_ready(self) -> bool:
        """Number the steps and build the trainer, as soon as everything is refined."""
        if not self.is_ready and not replays.still_refined(self.run):
            if not number_steps(self.run, self.fence):
                with suppress(NotPossible):  # the run was stopped meanwhile
                    self.run.stop(
                        reason=(
                            "nothing is left to train on: every recorded step lost all of "
                            "its groups"
                        )
                    )
                return False
            self.host = TrainerHost(weight_store.build_trainer_spec(self.run))
            super().open()
            self.is_ready = True
        return self.is_ready

    def _complete(self) -> None:
        if self.is_ready:
            super()._complete()

    def _plan(self) -> TrainStep | None:
        return plan_recorded(self.run, self.fence, credit_batch, treat)

    def _metrics(
        self, run: Run, step: TrainStep, batch: Sequence[Experience], seconds: float
    ) -> dict[str, float]:
        return {
            **metrics.compute_batch_metrics(run, step, batch),
            **metrics.of_buffer(run),
            "step_seconds": seconds,
            "wait_seconds": self.waited,
        }

    def _cause(self) -> str:
        return cause_of_replay(self.run)
