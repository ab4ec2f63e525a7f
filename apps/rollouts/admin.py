"""Groups and rollouts in the administration, only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest
from apps.rollouts.models import Group, Rollout


@admin.register(Group)
class GroupAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "run", "draw_index", "state", "reason", "attempts", "lease_owner", "opened_at"]
    list_select_related = ["run"]
    list_filter = [newest("state")]
    ordering = ["-pk"]


@admin.register(Rollout)
class RolloutAdmin(LedgerAdmin):
    is_large = True
    list_display = ["pk", "run", "group", "sample_index", "state", "stop_reason", "completion_tokens", "last_version"]
    list_select_related = ["run", "group"]
    list_filter = [newest("state"), newest("origin")]
    ordering = ["-pk"]
