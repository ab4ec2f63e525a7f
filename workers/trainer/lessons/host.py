"""Resident trainer of a preference run: a host whose ranks run a LessonTrainer."""

from dataclasses import replace
from pathlib import Path

from transformers import PreTrainedModel

from apps.policies.manifest import Manifest
from workers.trainer.host import TrainerHost
from workers.trainer.lessons import reward_model
from workers.trainer.lessons.lesson_trainer import REWARD_MODEL
from workers.trainer.spec import TrainerSpec

BASE = "reward-base"  # beside the checkpoints: the policy with a new scalar head


class LessonHost(TrainerHost):
    """TrainerHost whose batches consist of `lessons.rows.Pair` or `lessons.rows.JudgedAnswer`.

    For a reward model, the base model first gets its scoring head.
    """

    kind = "lessons"

    def __init__(self, spec: TrainerSpec) -> None:
        super().__init__(
            based_on_scores(spec) if spec.objective.loss.name == REWARD_MODEL else spec
        )

    def publish(self, final: Path, version: int, parent: int | None) -> Manifest:
        """Seal the current weights at `final`. Raises weights.NotFinite and errors of sealing."""
        if self.spec.objective.loss.name != REWARD_MODEL:
            return super().publish(final, version, parent)
        self.batch_queue.wait()
        whole = self._whole_model()
        assert isinstance(whole, PreTrainedModel)  # reward models have no adapters
        return reward_model.publish_reward_model(whole, self.spec.policy, final, version, parent)


def based_on_scores(spec: TrainerSpec) -> TrainerSpec:
    """Return the same specification, for the policy with a scalar head in place of its own."""
    folder = spec.output.parent / BASE
    folder.parent.mkdir(parents=True, exist_ok=True)
    return replace(spec, policy=reward_model.ensure_base(spec.policy, folder, spec.seed))
