"""Database models of tasksets, tasks, pictures, difficulty scales and imports."""

from apps.tasksets.models.imports import ImportOver, TasksetImport
from apps.tasksets.models.scales import DifficultyScale, TaskDifficulty
from apps.tasksets.models.tasksets import Picture, QuarantinedLine, Task, TaskParent, Taskset

__all__ = [
    "DifficultyScale",
    "ImportOver",
    "Picture",
    "QuarantinedLine",
    "Task",
    "TaskDifficulty",
    "TaskParent",
    "Taskset",
    "TasksetImport",
]
