"""Training data: experiences, snapshots of lessons, and the batch of each optimizer step."""

from apps.buffer.models.experiences import Experience, NewExperience
from apps.buffer.models.loading import batch_of
from apps.buffer.models.offspring import Offspring
from apps.buffer.models.reading import groups_again, stragglers
from apps.buffer.models.releases import Release
from apps.buffer.models.replays import Recorded, number_steps, plan_recorded
from apps.buffer.models.seeds import Seed
from apps.buffer.models.snapshots import (
    Snapshot,
    SnapshotItem,
    StepLesson,
    list_lessons,
    plan_lessons,
)
from apps.buffer.models.steps import (
    OperatorChanges,
    StepItem,
    commit_step,
    experts_missing,
    plan_step,
)

__all__ = [
    "Experience",
    "NewExperience",
    "Offspring",
    "OperatorChanges",
    "Recorded",
    "Release",
    "Seed",
    "Snapshot",
    "SnapshotItem",
    "StepItem",
    "StepLesson",
    "batch_of",
    "commit_step",
    "experts_missing",
    "groups_again",
    "list_lessons",
    "number_steps",
    "plan_lessons",
    "plan_recorded",
    "plan_step",
    "stragglers",
]
