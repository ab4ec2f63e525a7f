"""Admin pages of runs and their parts: read-only, since runs are steered from their pages."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest_rows_filter
from apps.runs.models import (
    Acknowledgement,
    ChartView,
    ExportJob,
    LogLine,
    Metric,
    MetricSpan,
    Prices,
    ProjectRemoval,
    Run,
    RunRemoval,
    TasksetShare,
    TrainStep,
    Usage,
    UsageTotal,
    WeightVersion,
    Worker,
)


@admin.register(Run)
class RunAdmin(LedgerAdmin):
    list_display = [
        "slug",
        "project",
        "state",
        "step",
        "planned_steps",
        "published_version",
        "groups_opened",
        "groups_dropped",
        "groups_again",
    ]
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
    list_filter = [newest_rows_filter("state")]
    ordering = ["-pk"]


@admin.register(ExportJob)
class ExportJobAdmin(LedgerAdmin):
    list_display = ["weight_version", "kind", "by", "state", "reason", "created_at", "ended_at"]
    list_select_related = ["weight_version", "by"]
    list_filter = ["kind", "state"]
    raw_id_fields = ["weight_version", "by", "policy", "run"]
    exclude = ["sealed_token"]
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


@admin.register(MetricSpan)
class MetricSpanAdmin(LedgerAdmin):
    is_large = True
    list_display = ["run", "name", "level", "first", "count", "mean", "low", "high"]
    list_select_related = ["run"]
    ordering = ["-pk"]


@admin.register(ChartView)
class ChartViewAdmin(LedgerAdmin):
    list_display = ["name", "project", "run", "owner", "is_shared", "at"]
    list_select_related = ["project", "run", "owner"]
    ordering = ["-pk"]


@admin.register(LogLine)
class LogLineAdmin(LedgerAdmin):
    is_large = True
    list_display = ["at", "level", "event", "run", "worker"]
    list_select_related = ["run"]
    list_filter = [newest_rows_filter("level")]
    ordering = ["-pk"]


@admin.register(Usage)
class UsageAdmin(LedgerAdmin):
    is_large = True
    list_display = ["run", "kind", "worker", "hour", "amount"]
    list_select_related = ["run"]
    ordering = ["-pk"]


@admin.register(UsageTotal)
class UsageTotalAdmin(LedgerAdmin):
    list_display = ["run", "kind", "own", "evaluations"]
    list_select_related = ["run"]
    ordering = ["-pk"]


@admin.register(Prices)
class PricesAdmin(LedgerAdmin):
    list_display = ["project", "currency", "gpu_hour", "cpu_hour", "judge_tokens", "person_hour"]
    list_select_related = ["project"]
    ordering = ["-pk"]


@admin.register(RunRemoval)
class RunRemovalAdmin(LedgerAdmin):
    list_display = ["slug", "project", "state", "done", "total", "reason", "by", "created_at"]
    list_filter = ["state"]
    list_select_related = ["project", "by"]


@admin.register(ProjectRemoval)
class ProjectRemovalAdmin(LedgerAdmin):
    list_display = ["slug", "title", "state", "done", "total", "reason", "by", "created_at"]
    list_filter = ["state"]
    list_select_related = ["by"]
