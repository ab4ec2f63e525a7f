"""Read-only administration pages for experiences, snapshots and batches."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest_rows_filter, register_read_only
from apps.buffer.models import (
    Experience,
    Offspring,
    Recorded,
    Release,
    Seed,
    Snapshot,
    SnapshotItem,
    StepItem,
    StepLesson,
)


@admin.register(Experience)
class ExperienceAdmin(LedgerAdmin):
    is_large = True
    list_display = [
        "pk",
        "run",
        "rollout",
        "kind",
        "state",
        "reward",
        "advantage",
        "weight_version",
        "uses",
    ]
    list_select_related = ["run", "rollout"]
    list_filter = [newest_rows_filter("state"), newest_rows_filter("kind")]
    ordering = ["-pk"]


@admin.register(Offspring)
class OffspringAdmin(LedgerAdmin):
    list_display = ["operator", "run", "of", "rollout", "tokens", "refused", "at"]
    list_select_related = ["run", "of", "rollout"]
    ordering = ["-pk"]


@admin.register(StepItem)
class StepItemAdmin(LedgerAdmin):
    is_large = True
    list_display = ["step", "position", "experience", "is_again"]
    list_select_related = ["step", "experience"]
    ordering = ["-pk"]


@admin.register(Snapshot)
class SnapshotAdmin(LedgerAdmin):
    list_display = ["run", "source", "size", "digest", "at"]
    list_select_related = ["run"]
    ordering = ["-pk"]


@admin.register(StepLesson)
class StepLessonAdmin(LedgerAdmin):
    list_display = ["step", "position", "item"]
    list_select_related = ["step", "item"]
    ordering = ["-pk"]


@admin.register(Release)
class ReleaseAdmin(LedgerAdmin):
    list_display = ["run", "groups", "rollouts", "bytes", "at"]
    list_select_related = ["run"]
    ordering = ["-pk"]


@admin.register(Seed)
class SeedAdmin(LedgerAdmin):
    list_display = ["run", "group", "of", "at"]
    list_select_related = ["run", "group", "of"]
    ordering = ["-pk"]


register_read_only(Recorded, "run", "recorded_step", "step", "place", "group", "expert")
register_read_only(SnapshotItem, "snapshot", "position")
