"""Runs and what belongs to them in the administration: steered from their pages, only looked at here."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest
from apps.runs.models import Acknowledgement, Metric, Run, TasksetShare, TrainStep, WeightVersion, Worker


@admin.register(Run)
class RunAdmin(LedgerAdmin):
    list_display = [
        "slug", "project", "state", "step", "planned_steps", "published_version", "groups_opened", "groups_dropped", "groups_again",
    ]  # fmt: skip
    list_select_related = ["project"]
    list_filter = ["state"]
    search_fields = ["slug", "title"]


@admin.register(TasksetShare)
class TasksetShareAdmin(LedgerAdmin):
    list_display = ["run", "taskset", "share"]
    list_select_related = ["run", "taskset"]
    raw_id_fields = ["run", "taskset"]
    ordering = ["-pk"]


@admin.register(WeightVersion)
class WeightVersionAdmin(LedgerAdmin):
    is_large = True
    list_display = ["run", "version", "state", "step", "fingerprint", "published_at"]
    list_select_related = ["run"]
    list_filter = [newest("state")]
    ordering = ["-pk"]


@admin.register(Worker)
class WorkerAdmin(LedgerAdmin):
    list_display = ["key", "role", "engine", "doing", "heartbeat_at", "stopped_at"]
    list_filter = ["role"]
    ordering = ["-heartbeat_at"]


@admin.register(Acknowledgement)
class AcknowledgementAdmin(LedgerAdmin):
    is_large = True
    list_display = ["weight_version", "worker", "probe_gap", "milliseconds", "at"]
    list_select_related = ["weight_version", "worker"]
    ordering = ["-pk"]


@admin.register(TrainStep)
class TrainStepAdmin(LedgerAdmin):
    is_large = True
    list_display = ["run", "number", "state", "version", "seconds", "skipped", "committed_at"]
    list_select_related = ["run"]
    ordering = ["-pk"]


@admin.register(Metric)
class MetricAdmin(LedgerAdmin):
    is_large = True
    list_display = ["run", "step", "name", "value"]
    list_select_related = ["run"]
    ordering = ["-pk"]
