"""What people were asked and said, in the administration: append-only, so only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin
from apps.feedback.models import (
    Demonstration,
    EvaluationResult,
    ExpertAnswer,
    Intervention,
    Item,
    Preference,
    RaterModel,
    Rating,
    Skip,
    Slot,
    Thumb,
)


@admin.register(Rating)
class RatingAdmin(LedgerAdmin):
    list_display = ["pk", "run", "rollout", "rater", "form", "answer", "is_current", "is_withdrawn", "is_late", "at"]
    list_filter = ["form", "is_late", "is_withdrawn"]
    list_select_related = ["run", "rollout", "rater"]
    ordering = ["-pk"]


class LessonAdmin(LedgerAdmin):
    list_select_related = ["project", "author", "run"]
    list_filter = ["project", "source"]
    ordering = ["-pk"]


@admin.register(Demonstration)
class DemonstrationAdmin(LessonAdmin):
    list_display = ["pk", "project", "answer", "author", "source", "run", "at"]


@admin.register(Preference)
class PreferenceAdmin(LessonAdmin):
    list_display = ["pk", "project", "chosen", "rejected", "margin", "author", "source", "run", "at"]


@admin.register(Thumb)
class ThumbAdmin(LessonAdmin):
    list_display = ["pk", "project", "completion", "is_up", "author", "source", "run", "at"]


@admin.register(ExpertAnswer)
class ExpertAnswerAdmin(LedgerAdmin):
    list_display = ["demonstration", "run", "rollout"]
    list_select_related = ["demonstration", "run", "rollout"]
    ordering = ["-pk"]


@admin.register(Item)
class ItemAdmin(LedgerAdmin):
    list_display = ["pk", "run", "group", "form", "purpose", "wanted", "state", "opened_at"]
    list_filter = ["form", "purpose", "state"]
    list_select_related = ["run", "group"]
    ordering = ["-pk"]


@admin.register(Slot)
class SlotAdmin(LedgerAdmin):
    list_display = ["pk", "item", "run", "state", "rater", "due_at", "lease_until"]
    list_filter = ["state"]
    list_select_related = ["item", "run", "rater"]
    ordering = ["-pk"]


@admin.register(Skip)
class SkipAdmin(LedgerAdmin):
    list_display = ["item", "rater", "reason", "at"]
    list_select_related = ["item", "rater"]
    ordering = ["-pk"]


@admin.register(Intervention)
class InterventionAdmin(LedgerAdmin):
    list_display = ["pk", "rollout", "by", "kind", "state", "reason", "at"]
    list_filter = ["kind", "state"]
    list_select_related = ["rollout", "by"]
    ordering = ["-pk"]


@admin.register(EvaluationResult)
class EvaluationResultAdmin(LedgerAdmin):
    list_display = ["run", "made_at"]
    list_select_related = ["run"]
    ordering = ["-pk"]


@admin.register(RaterModel)
class RaterModelAdmin(LedgerAdmin):
    list_display = ["run", "number", "kind", "decisions", "fitted_at"]
    list_select_related = ["run"]
    ordering = ["-pk"]
