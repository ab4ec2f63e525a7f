"""Ratings in the administration: append-only, so only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin
from apps.feedback.models import Rating


@admin.register(Rating)
class RatingAdmin(LedgerAdmin):
    list_display = ["rollout", "rater", "stars", "is_late", "at"]
    list_select_related = ["rollout", "rater"]
    ordering = ["-pk"]
