"""Rewards in the administration, only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest
from apps.rewards.models import Rescoring, Reward


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
