"""What can be learned: experiences, frozen snapshots of lessons, and which of them each optimiser update took."""

from apps.buffer.models.experiences import Experience
from apps.buffer.models.offspring import Offspring
from apps.buffer.models.reading import groups_again, stragglers
from apps.buffer.models.releases import Release
from apps.buffer.models.replays import Recorded, number_steps, plan_recorded
from apps.buffer.models.seeds import Seed
from apps.buffer.models.snapshots import Snapshot, SnapshotItem, StepLesson, lessons_of, plan_lessons
from apps.buffer.models.steps import StepItem, Treated, batch_of, commit_step, experts_missing, plan_step

__all__ = [
    "Experience", "Offspring", "Recorded", "Release", "Seed", "Snapshot", "SnapshotItem", "StepItem", "StepLesson", "Treated",
    "batch_of",
    "commit_step", "experts_missing", "groups_again", "lessons_of", "number_steps", "plan_lessons", "plan_recorded", "plan_step",
    "stragglers",
]  # fmt: skip
