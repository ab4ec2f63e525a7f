"""Rewards in the administration, only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, looked_at, newest
from apps.rewards.models import JudgeReply, Rescored, RescoredGroup, RescoredReward, Rescoring, Reward


@admin.register(Reward)
class RewardAdmin(LedgerAdmin):
    is_large = True
    list_display = ["rollout", "source", "scorer", "value", "reason", "by", "is_current", "at"]
    list_select_related = ["rollout", "by"]
    list_filter = [newest("source")]
    ordering = ["-pk"]


@admin.register(Rescoring)
class RescoringAdmin(LedgerAdmin):
    list_display = ["id", "run", "names", "state", "done", "groups", "rollouts", "by", "created_at"]
    list_select_related = ["run", "by"]
    list_filter = ["state"]
    ordering = ["-pk"]


looked_at(JudgeReply, "id", "tokens_in", "tokens_out", "seconds", "at")
looked_at(RescoredGroup, "rescoring", "group", "attempts", "done_at", "other_best", "signal_before", "signal_after")
looked_at(RescoredReward, "rescoring", "rollout", "scorer", "value", "reason", "at")
looked_at(Rescored, "rescoring", "rollout", "before", "after", "fate", "size")
