"""A run, its steps, its weight versions, and the workers that serve it."""

from apps.leases.lease import StaleFence, after
from apps.runs.models.chart_views import MAX_NAME_LENGTH, ChartView
from apps.runs.models.log_lines import LogLine
from apps.runs.models.orders import ExportJob, OrderOver
from apps.runs.models.removals import ProjectRemoval, Removal, RunRemoval
from apps.runs.models.run import ChangedMeanwhile, NotPossible, Run
from apps.runs.models.shares import TasksetShare
from apps.runs.models.spans import MetricSpan, metric_names, newest_values
from apps.runs.models.steps import Metric, TrainStep
from apps.runs.models.usage import Prices, Usage, UsageTotal
from apps.runs.models.weights import Acknowledgement, WeightVersion
from apps.runs.models.worker import Worker

__all__ = [
    "MAX_NAME_LENGTH",
    "Acknowledgement",
    "ChangedMeanwhile",
    "ChartView",
    "ExportJob",
    "LogLine",
    "Metric",
    "MetricSpan",
    "NotPossible",
    "OrderOver",
    "Prices",
    "ProjectRemoval",
    "Removal",
    "Run",
    "RunRemoval",
    "StaleFence",
    "TasksetShare",
    "TrainStep",
    "Usage",
    "UsageTotal",
    "WeightVersion",
    "Worker",
    "after",
    "metric_names",
    "newest_values",
]
