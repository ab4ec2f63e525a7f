"""Train a run that learns from lessons: its batches come from its snapshot."""

from collections.abc import Sequence
from dataclasses import replace

import structlog

from apps.buffer.models import Snapshot, list_lessons, plan_lessons
from apps.feedback.lesson_snapshots import freeze, lessons, require_unchanged
from apps.feedback.models import Lesson
from apps.runs.models import Run, TrainStep
from workers.trainer import weight_store
from workers.trainer.collate import Row
from workers.trainer.host import TrainerHost
from workers.trainer.lessons import rows
from workers.trainer.lessons.host import LessonHost
from workers.trainer.lessons.tokenization import LessonTokenizer
from workers.trainer.run_trainer import RunTrainer
from workers.trainer.spec import Experts, Knobs, Objective, TrainerSpec

log = structlog.get_logger(__name__)


class LessonRunTrainer(RunTrainer[Lesson]):
    """Trainer of a run that learns from lessons.

    The first trainer of the run freezes the snapshot; every later one reads the same snapshot.
    """

    snapshot: Snapshot

    def open(self) -> None:
        """Freeze or check the snapshot, then open the run as the base class does.

        Raises ValueError if there is nothing to learn from, and LessonGone.
        """
        self.snapshot = freeze(self.run)
        require_unchanged(self.snapshot)
        log.info(
            "snapshot_created",
            run=self.run,
            source=self.snapshot.source,
            lessons=self.snapshot.size,
            digest=self.snapshot.digest,
        )
        self.lesson_tokenizer = LessonTokenizer(
            self.run.policy.folder,
            self.run.policy.context_tokens,
            scores=self.run.settings.algorithm.name == "reward_model",
        )
        super().open()

    def _host(self) -> TrainerHost:
        spec = weight_store.build_trainer_spec(self.run)
        return (
            TrainerHost(imitating(spec))
            if self.run.settings.algorithm.name == "sft"
            else LessonHost(spec)
        )

    def _plan(self) -> TrainStep | None:
        return plan_lessons(self.run, self.fence)

    def _batch(self, step: TrainStep) -> list[Lesson]:
        return lessons(self.snapshot.source, list_lessons(step))

    def _rows(self, batch: Sequence[Lesson]) -> Sequence[Row | rows.Lesson]:
        return self.lesson_tokenizer.batch(batch)

    def _knobs(self, step: TrainStep) -> Knobs:
        """Return the step's knobs at temperature 1, since nobody sampled the lessons."""
        return replace(super()._knobs(step), temperature=1.0)

    def _metrics(
        self, run: Run, step: TrainStep, batch: Sequence[Lesson], seconds: float
    ) -> dict[str, float]:
        plan = run.settings.snapshot
        assert plan is not None  # runs that learn from lessons have one
        epoch = step.number * plan.rows / self.snapshot.size
        return {
            "rows": len(batch),
            "epoch": epoch,
            "step_seconds": seconds,
            "wait_seconds": self.waited,
        }

    def _cause(self) -> str:
        return "nothing: the snapshot is ready"


def imitating(spec: TrainerSpec) -> TrainerSpec:
    """Return the specification with only expert rows: the expert term is the whole loss."""
    plan = spec.objective
    everything = Experts(
        rows=spec.rows_per_step, mu=1.0, loss=plan.loss, aggregation=plan.aggregation
    )
    objective = replace(plan, loss=Objective().loss, experts=everything)
    return replace(spec, objective=objective, temperature=1.0)
