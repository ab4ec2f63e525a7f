"""Tasksets with their tasks and pictures, how hard these are, and the imports that tasksets come from."""

from apps.tasksets.models.imports import ImportOver, TasksetImport
from apps.tasksets.models.scales import DifficultyScale, TaskDifficulty
from apps.tasksets.models.tasksets import Picture, QuarantinedLine, Task, TaskParent, Taskset

__all__ = [
    "DifficultyScale", "ImportOver", "Picture", "QuarantinedLine", "Task", "TaskDifficulty", "TaskParent", "Taskset",
    "TasksetImport",
]  # fmt: skip
