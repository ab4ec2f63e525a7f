"""A run that replays recorded data, at its trainer: as any other, but its groups were sampled long ago and wait for nobody.

First the data is copied, then the refiner judges it anew (what it judges by may have changed), then the updates that
have something left are numbered; only then a trainer is built, as its plan is known only then.
"""

from collections.abc import Sequence
from contextlib import suppress

import structlog

from apps.buffer.models import Experience, number_steps, plan_recorded, replays
from apps.feedback.replaying.copying import copy_recorded
from apps.pipelines.batching import treat
from apps.pipelines.crediting import of_batch
from apps.runs.models import NotPossible, Run, TrainStep
from apps.streaming import bells
from workers.trainer import figures, shelf
from workers.trainer.desk import Desk
from workers.trainer.due import cause_of_replay
from workers.trainer.host import TrainerHost

log = structlog.get_logger(__name__)


class ReplayDesk(Desk):
    """`is_ready`: its updates are numbered and its trainer stands where the run does."""

    is_ready = False

    def open(self) -> None:
        """Copy the recorded data, once. Raises StaleFence."""
        if not replays.is_copied(self.run):
            copied = copy_recorded(self.run, self.fence)
            log.info("recorded_data_copied", run=self.run, groups=copied.groups, rollouts=copied.rollouts)
            bells.ring("refine")
        self._make_ready()

    def turn(self) -> bool:
        self.run.refresh_from_db()
        return super().turn() if self.is_ready or self._make_ready() else self.wait()

    def _make_ready(self) -> bool:
        """Number the updates and build the trainer, as soon as everything is refined."""
        if not self.is_ready and not replays.still_refined(self.run):
            if not number_steps(self.run, self.fence):
                with suppress(NotPossible):  # stopped meanwhile
                    self.run.stop(reason="nothing is left to learn from: every recorded update lost all its groups")
                return False
            self.host = TrainerHost(shelf.spec_of(self.run))
            super().open()
            self.is_ready = True
        return self.is_ready

    def _complete(self) -> None:
        if self.is_ready:
            super()._complete()

    def _plan(self) -> TrainStep | None:
        return plan_recorded(self.run, self.fence, of_batch, treat)

    def _figures(self, run: Run, step: TrainStep, batch: Sequence[Experience], seconds: float) -> dict[str, float]:
        return {
            **figures.of_batch(run, step, batch),
            **figures.of_buffer(run),
            "step_seconds": seconds,
            "wait_seconds": self.waited,
        }

    def _cause(self) -> str:
        return cause_of_replay(self.run)
