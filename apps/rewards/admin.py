"""Rewards in the administration, only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin
from apps.rewards.models import Reward


@admin.register(Reward)
class RewardAdmin(LedgerAdmin):
    list_display = ["rollout", "source", "scorer", "value", "reason", "by", "is_current", "at"]
    list_select_related = ["rollout", "by"]
    list_filter = ["source"]
    ordering = ["-pk"]
