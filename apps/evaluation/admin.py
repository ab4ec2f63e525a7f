"""Read-only administration pages of evaluations' results, arenas and votes."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest_rows_filter, register_read_only
from apps.evaluation.models import Arena, Contestant, EvaluationResult, Pairing, Vote


@admin.register(EvaluationResult)
class EvaluationResultAdmin(LedgerAdmin):
    list_display = ["run", "made_at"]
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
    list_filter = [newest_rows_filter("choice")]
    list_select_related = ["pairing", "task", "rater"]
    ordering = ["-pk"]


register_read_only(Contestant, "arena", "run", "place")
register_read_only(Pairing, "arena", "first", "second", "size", "same", "votes")
