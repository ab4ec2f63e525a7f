"""Read-only administration pages of people's items and answers, which are append-only."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest_rows_filter, register_read_only
from apps.feedback.forms import BUILT_IN
from apps.feedback.models import (
    Adjudication,
    Calibration,
    Demonstration,
    ExpertAnswer,
    Guess,
    Intervention,
    Item,
    Prediction,
    Preference,
    RaterModel,
    Rating,
    RatingReward,
    RolloutBaseNll,
    Skip,
    Slot,
    Suspicion,
    SuspicionAction,
    SuspicionItem,
    Thumb,
)


@admin.register(Rating)
class RatingAdmin(LedgerAdmin):
    is_large = True
    list_display = [
        "pk",
        "run",
        "rollout",
        "rater",
        "form",
        "answer",
        "is_current",
        "is_withdrawn",
        "is_late",
        "at",
    ]
    list_filter = [newest_rows_filter("form", *BUILT_IN)]
    list_select_related = ["run", "rollout", "rater"]
    ordering = ["-pk"]


class LessonAdmin(LedgerAdmin):
    is_large = True
    list_select_related = ["project", "author", "run"]
    ordering = ["-pk"]


@admin.register(Demonstration)
class DemonstrationAdmin(LessonAdmin):
    list_display = ["pk", "project", "answer", "author", "source", "run", "at"]


@admin.register(Preference)
class PreferenceAdmin(LessonAdmin):
    list_display = [
        "pk",
        "project",
        "chosen",
        "rejected",
        "margin",
        "author",
        "source",
        "run",
        "at",
    ]


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
    is_large = True
    list_display = ["pk", "run", "group", "form", "purpose", "overlap", "state", "opened_at"]
    list_filter = [
        newest_rows_filter("form", *BUILT_IN),
        newest_rows_filter("purpose"),
        newest_rows_filter("state"),
    ]
    list_select_related = ["run", "group"]
    ordering = ["-pk"]


@admin.register(Slot)
class SlotAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "item", "run", "state", "rater", "due_at", "lease_until"]
    list_filter = [newest_rows_filter("state")]
    list_select_related = ["item", "run", "rater"]
    ordering = ["-pk"]


@admin.register(Skip)
class SkipAdmin(LedgerAdmin):
    is_large = True
    list_display = ["item", "rater", "reason", "at"]
    list_select_related = ["item", "rater"]
    ordering = ["-pk"]


@admin.register(Intervention)
class InterventionAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "rollout", "by", "kind", "state", "reason", "at"]
    list_filter = [newest_rows_filter("kind"), newest_rows_filter("state")]
    list_select_related = ["rollout", "by"]
    ordering = ["-pk"]


@admin.register(RaterModel)
class RaterModelAdmin(LedgerAdmin):
    list_display = ["run", "number", "kind", "decisions", "fitted_at"]
    list_select_related = ["run"]
    ordering = ["-pk"]


register_read_only(RatingReward, "rating", "reward")
register_read_only(Adjudication, "item", "rating", "at")
register_read_only(
    Calibration, "run", "scorer", "domain", "last_rating", "made_at", "alarm", "alarmed_at"
)
register_read_only(Prediction, "rating", "rater_model", "mean", "deviation", "is_audit")
register_read_only(RolloutBaseNll, "rollout", "mean", "worst", "rare")
register_read_only(
    Suspicion, "id", "run", "kind", "state", "words", "first_seen_at", "last_seen_at"
)
register_read_only(SuspicionAction, "suspicion", "verb", "reason", "by", "at")
register_read_only(SuspicionItem, "suspicion", "item")
register_read_only(Guess, "task", "policy", "scorer", "tries", "right", "at")
