"""Tasksets with their tasks and pictures, and the imports that tasksets come from."""

from apps.tasksets.models.imports import ImportOver, TasksetImport
from apps.tasksets.models.tasksets import Picture, QuarantinedLine, Task, Taskset

__all__ = ["ImportOver", "Picture", "QuarantinedLine", "Task", "Taskset", "TasksetImport"]
