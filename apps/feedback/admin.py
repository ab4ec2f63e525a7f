"""What people were asked and said, in the administration: append-only, so only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, looked_at, newest
from apps.feedback.forms import FORMS
from apps.feedback.models import (
    Adjudication,
    Arena,
    Calibration,
    Contestant,
    Demonstration,
    EvaluationResult,
    ExpertAnswer,
    Guess,
    Intervention,
    Item,
    Pairing,
    Prediction,
    Preference,
    RaterModel,
    Rating,
    RatingReward,
    Skip,
    Slot,
    Surprise,
    Suspicion,
    SuspicionAct,
    SuspicionItem,
    Thumb,
    Vote,
)


@admin.register(Rating)
class RatingAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "run", "rollout", "rater", "form", "answer", "is_current", "is_withdrawn", "is_late", "at"]
    list_filter = [newest("form", *FORMS)]
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
    is_large = True
    list_display = ["pk", "run", "group", "form", "purpose", "wanted", "state", "opened_at"]
    list_filter = [newest("form", *FORMS), newest("purpose"), newest("state")]
    list_select_related = ["run", "group"]
    ordering = ["-pk"]


@admin.register(Slot)
class SlotAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "item", "run", "state", "rater", "due_at", "lease_until"]
    list_filter = [newest("state")]
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
    list_filter = [newest("kind"), newest("state")]
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


@admin.register(Arena)
class ArenaAdmin(LedgerAdmin):
    exclude = ["secret"]
    list_display = ["pk", "title", "project", "taskset", "by", "created_at", "closed_at"]
    list_select_related = ["project", "taskset", "by"]
    ordering = ["-pk"]


@admin.register(Vote)
class VoteAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "pairing", "task", "sample_index", "rater", "choice", "at"]
    list_filter = [newest("choice")]
    list_select_related = ["pairing", "task", "rater"]
    ordering = ["-pk"]


looked_at(RatingReward, "rating", "reward")
looked_at(Adjudication, "item", "rating", "at")
looked_at(Contestant, "arena", "run", "place")
looked_at(Pairing, "arena", "first", "second", "size", "same", "votes")
looked_at(Calibration, "run", "scorer", "domain", "last_rating", "made_at", "alarm", "alarmed_at")
looked_at(Prediction, "rating", "rater_model", "mean", "deviation", "is_audit")
looked_at(Surprise, "rollout", "mean", "worst", "rare")
looked_at(Suspicion, "id", "run", "kind", "state", "words", "first_seen_at", "last_seen_at")
looked_at(SuspicionAct, "suspicion", "verb", "reason", "by", "at")
looked_at(SuspicionItem, "suspicion", "item")
looked_at(Guess, "task", "policy", "scorer", "tries", "right", "at")
