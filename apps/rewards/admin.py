"""Rewards in the administration, only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest_rows_filter, register_read_only
from apps.rewards.models import (
    JudgeReply,
    RegressionCase,
    RegressionCheck,
    Rescored,
    RescoredGroup,
    RescoredReward,
    Rescoring,
    Reward,
    Trial,
)


@admin.register(Reward)
class RewardAdmin(LedgerAdmin):
    is_large = True
    list_display = ["rollout", "source", "scorer", "value", "reason", "by", "is_current", "at"]
    list_select_related = ["rollout", "by"]
    list_filter = [newest_rows_filter("source")]
    ordering = ["-pk"]


@admin.register(Rescoring)
class RescoringAdmin(LedgerAdmin):
    list_display = ["id", "run", "names", "state", "done", "groups", "rollouts", "by", "created_at"]
    list_select_related = ["run", "by"]
    list_filter = ["state"]
    ordering = ["-pk"]


register_read_only(JudgeReply, "id", "tokens_in", "tokens_out", "seconds", "at")
register_read_only(
    RescoredGroup,
    "rescoring",
    "group",
    "attempts",
    "done_at",
    "other_best",
    "signal_before",
    "signal_after",
)
register_read_only(RescoredReward, "rescoring", "rollout", "scorer", "value", "reason", "at")
register_read_only(Rescored, "rescoring", "rollout", "before", "after", "fate", "size")
register_read_only(Trial, "id", "project", "scorer", "state", "reason", "by", "created_at")
register_read_only(
    RegressionCheck, "id", "project", "state", "cases", "done", "differ", "by", "created_at"
)
register_read_only(
    RegressionCase, "id", "project", "scorer", "expected", "value", "holds", "checked_at"
)
