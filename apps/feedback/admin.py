"""What people said, in the administration: append-only, so only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin
from apps.feedback.models import Demonstration, ExpertAnswer, Preference, Rating, Thumb


@admin.register(Rating)
class RatingAdmin(LedgerAdmin):
    list_display = ["rollout", "rater", "stars", "is_late", "at"]
    list_select_related = ["rollout", "rater"]
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
