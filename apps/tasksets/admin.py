"""Tasksets in the administration: looked at, since a set that a run has used never changes."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, register_read_only
from apps.tasksets.models import (
    DifficultyScale,
    Picture,
    QuarantinedLine,
    Task,
    TaskDifficulty,
    TaskParent,
    Taskset,
    TasksetImport,
)


@admin.register(Taskset)
class TasksetAdmin(LedgerAdmin):
    list_display = [
        "slug",
        "project",
        "first",
        "version",
        "source",
        "size",
        "quarantined",
        "duplicates",
        "left_out",
        "created_at",
    ]
    list_select_related = ["project", "first"]
    search_fields = ["slug", "title"]


@admin.register(Task)
class TaskAdmin(LedgerAdmin):
    is_large = True
    list_display = ["__str__", "taskset", "question"]
    list_select_related = ["taskset"]
    raw_id_fields = ["taskset"]


@admin.register(QuarantinedLine)
class QuarantinedLineAdmin(LedgerAdmin):
    is_large = True
    list_display = ["taskset", "line", "reason"]
    list_select_related = ["taskset"]


@admin.register(TasksetImport)
class TasksetImportAdmin(LedgerAdmin):
    list_display = ["name", "project", "slug", "state", "rows", "reason", "created_at"]
    list_select_related = ["project"]
    raw_id_fields = ["taskset"]


register_read_only(TaskParent, "task", "parent")
register_read_only(Picture, "id", "project", "width", "height", "created_at")
register_read_only(DifficultyScale, "taskset", "name", "source", "ready", "created_at")
register_read_only(TaskDifficulty, "scale", "task", "value", "place")
