"""The resident trainer of a preference run: a host whose thread runs a LessonTrainer."""

from dataclasses import replace
from pathlib import Path

from apps.policies.manifest import Manifest
from workers.trainer.host import TrainerHost
from workers.trainer.lessons import reward_model
from workers.trainer.lessons.lesson_trainer import REWARD_MODEL, LessonTrainer
from workers.trainer.spec import TrainerSpec

BASE = "reward-base"  # beside the checkpoints: the policy under a fresh scalar head


class LessonHost(TrainerHost):
    """As TrainerHost; a batch is of `lessons.rows`' Pair or Judged. A reward model first gets its head."""

    def __init__(self, spec: TrainerSpec) -> None:
        super().__init__(based_on_scores(spec) if spec.objective.loss.name == REWARD_MODEL else spec)

    def _build(self, staging: Path) -> LessonTrainer:
        return LessonTrainer(self.spec, self.gate, self.recorder, staging)

    def publish(self, final: Path, version: int, parent: int | None) -> Manifest:
        """Seal the current weights at `final`. Raises weights.NotFinite and what sealing raises."""
        if self.spec.objective.loss.name != REWARD_MODEL:
            return super().publish(final, version, parent)
        self.gate.wait()
        return reward_model.publish(self.trainer.model, self.spec.policy, final, version, parent)


def based_on_scores(spec: TrainerSpec) -> TrainerSpec:
    """The same training, from the policy with a scalar head in place of its own."""
    folder = spec.output.parent / BASE
    folder.parent.mkdir(parents=True, exist_ok=True)
    return replace(spec, policy=reward_model.ensure_base(spec.policy, folder, spec.seed))
