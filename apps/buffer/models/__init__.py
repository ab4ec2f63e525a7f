"""What can be learned: experiences, frozen snapshots of lessons, and which of them each optimiser update took."""

from apps.buffer.models.experiences import Experience
from apps.buffer.models.snapshots import Snapshot, SnapshotItem, StepLesson, lessons_of, plan_lessons
from apps.buffer.models.steps import StepItem, batch_of, commit_step, experts_missing, plan_step

__all__ = [
    "Experience", "Snapshot", "SnapshotItem", "StepItem", "StepLesson", "batch_of", "commit_step", "experts_missing", "lessons_of",
    "plan_lessons", "plan_step",
]  # fmt: skip
