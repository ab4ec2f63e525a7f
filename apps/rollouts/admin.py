"""Read-only administration pages for groups and rollouts."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest_rows_filter, register_read_only
from apps.rollouts.excluded_tasks import FailedGroup, LeftOut
from apps.rollouts.models import Chat, ChatTurn, Comparison, Group, Rollout, RolloutPayload
from apps.rollouts.partial import PartialRollout
from apps.rollouts.task_requests import TaskRequest
from apps.rollouts.task_stats import TaskRecord


@admin.register(Group)
class GroupAdmin(LedgerAdmin):
    is_large = True
    list_display = [
        "pk",
        "run",
        "draw_index",
        "state",
        "reason",
        "attempts",
        "lease_owner",
        "opened_at",
    ]
    list_select_related = ["run"]
    list_filter = [newest_rows_filter("state")]
    ordering = ["-pk"]


@admin.register(Rollout)
class RolloutAdmin(LedgerAdmin):
    is_large = True
    list_display = [
        "pk",
        "run",
        "group",
        "sample_index",
        "state",
        "stop_reason",
        "completion_tokens",
        "last_version",
    ]
    list_select_related = ["run", "group"]
    list_filter = [newest_rows_filter("state"), newest_rows_filter("origin")]
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
    list_display = ["chat", "number", "state", "tokens", "reason", "requested_at", "ended_at"]
    list_select_related = ["chat"]
    list_filter = [newest_rows_filter("state")]
    raw_id_fields = ["chat", "worker"]
    ordering = ["-pk"]


@admin.register(Comparison)
class ComparisonAdmin(LedgerAdmin):
    list_display = ["run", "one", "other", "by", "temperature", "at"]
    list_select_related = ["run", "one", "other", "by"]
    raw_id_fields = ["run", "one", "other", "by"]
    ordering = ["-pk"]


# Packed arrays, which the rollout's page shows.
register_read_only(RolloutPayload, "rollout", fields=("rollout",))
register_read_only(
    PartialRollout,
    "rollout",
    "completion_tokens",
    "slices",
    "stored_at",
    fields=("rollout", "completion_tokens", "slices"),
)
register_read_only(TaskRequest, "run", "task", "by", "at", "draw_index")
register_read_only(TaskRecord, "run", "task", "attempts", "successes", "rate", "updated_at")
register_read_only(LeftOut, "run", "task", "reason", "by", "operator", "failures", "at")
register_read_only(FailedGroup, "group", "run", "task", "is_forgiven", "at")
