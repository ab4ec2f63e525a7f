"""A run, its steps, its weight versions, and the workers that serve it."""

from apps.runs.models.log_lines import LogLine
from apps.runs.models.orders import OrderOver, WeightOrder
from apps.runs.models.run import ChangedMeanwhile, NotPossible, Run, StaleFence, after
from apps.runs.models.shares import TasksetShare
from apps.runs.models.spans import MetricSpan, metric_names, newest_values
from apps.runs.models.steps import Metric, TrainStep
from apps.runs.models.usage import Prices, Usage, UsageTotal
from apps.runs.models.weights import Acknowledgement, WeightVersion
from apps.runs.models.worker import MAY_TAKE, Worker

__all__ = [
    "MAY_TAKE", "Acknowledgement", "ChangedMeanwhile", "LogLine", "Metric", "MetricSpan", "NotPossible", "OrderOver", "Prices",
    "Run", "StaleFence", "TasksetShare", "TrainStep", "Usage", "UsageTotal", "WeightOrder", "WeightVersion", "Worker", "after",
    "metric_names",
    "newest_values",
]  # fmt: skip
