"""A run that learns from lessons, at its trainer: as any other, but its batches come from its snapshot and wait for nobody."""

from collections.abc import Sequence
from dataclasses import replace

import structlog

from apps.buffer.models import Snapshot, lessons_of, plan_lessons
from apps.feedback.freezing import freeze, lessons, require_unchanged
from apps.feedback.models import Lesson
from apps.runs.models import Run, TrainStep
from workers.trainer import shelf
from workers.trainer.desk import Desk
from workers.trainer.host import TrainerHost
from workers.trainer.lessons.host import LessonHost
from workers.trainer.lessons.spelling import Speller
from workers.trainer.spec import Experts, Objective, TrainerSpec

log = structlog.get_logger(__name__)


class LessonDesk(Desk):
    """The snapshot is frozen by whoever opens the run first, and read back to the letter by everybody after."""

    snapshot: Snapshot

    def open(self) -> None:
        """Freeze or check the snapshot, then as every desk. Raises ValueError (nothing to learn from), LessonGone."""
        self.snapshot = freeze(self.run)
        require_unchanged(self.snapshot)
        log.info("snapshot", run=self.run, source=self.snapshot.source, lessons=self.snapshot.size, digest=self.snapshot.digest)
        self.speller = Speller(self.run.policy.folder, self.run.policy.context_tokens)
        super().open()

    def _host(self) -> TrainerHost:
        spec = shelf.spec_of(self.run)
        return TrainerHost(imitating(spec)) if self.run.settings.algorithm.name == "sft" else LessonHost(spec)

    def _plan(self) -> TrainStep | None:
        return plan_lessons(self.run, self.fence)

    def _batch(self, step: TrainStep) -> list[Lesson]:
        return lessons(self.snapshot.source, lessons_of(step))

    def _rows(self, batch: Sequence[Lesson]) -> list:
        return self.speller.batch(batch)

    def _figures(self, run: Run, step: TrainStep, batch: Sequence[Lesson], seconds: float) -> dict[str, float]:
        epoch = step.number * run.settings.snapshot.rows / self.snapshot.size
        return {"rows": len(batch), "epoch": epoch, "step_seconds": seconds, "wait_seconds": self.waited}

    def _cause(self) -> str:
        return "nothing: its snapshot is there"


def imitating(spec: TrainerSpec) -> TrainerSpec:
    """The same training of rows that experts wrote, all of them: the expert term is the whole loss."""
    plan = spec.objective
    everything = Experts(rows=spec.rows_per_step, mu=1.0, loss=plan.loss, aggregation=plan.aggregation)
    return replace(spec, objective=replace(plan, loss=Objective().loss, experts=everything))
