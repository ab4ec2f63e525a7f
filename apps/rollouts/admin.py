"""Groups and rollouts in the administration, only looked at."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, looked_at, newest
from apps.rollouts.asked import AskedTask
from apps.rollouts.left_out import FailedGroup, LeftOut
from apps.rollouts.models import Chat, ChatTurn, Comparison, Group, Rollout, RolloutPayload
from apps.rollouts.partial import PartialRollout
from apps.rollouts.records import TaskRecord


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


@admin.register(Chat)
class ChatAdmin(LedgerAdmin):
    list_display = ["weight_version", "by", "comparison", "at"]
    list_select_related = ["weight_version", "by", "comparison"]
    raw_id_fields = ["weight_version", "by", "comparison"]
    ordering = ["-pk"]


@admin.register(ChatTurn)
class ChatTurnAdmin(LedgerAdmin):
    is_large = True
    list_display = ["chat", "number", "state", "tokens", "reason", "asked_at", "ended_at"]
    list_select_related = ["chat"]
    list_filter = [newest("state")]
    raw_id_fields = ["chat", "worker"]
    ordering = ["-pk"]


@admin.register(Comparison)
class ComparisonAdmin(LedgerAdmin):
    list_display = ["run", "one", "other", "by", "temperature", "at"]
    list_select_related = ["run", "one", "other", "by"]
    raw_id_fields = ["run", "one", "other", "by"]
    ordering = ["-pk"]


looked_at(RolloutPayload, "rollout", fields=("rollout",))  # arrays, packed: the desk shows them
looked_at(PartialRollout, "rollout", "completion_tokens", "slices", "stored_at", fields=("rollout", "completion_tokens", "slices"))
looked_at(AskedTask, "run", "task", "by", "at", "draw_index")
looked_at(TaskRecord, "run", "task", "attempts", "successes", "rate", "updated_at")
looked_at(LeftOut, "run", "task", "reason", "by", "operator", "failures", "at")
looked_at(FailedGroup, "group", "run", "task", "is_forgiven", "at")
