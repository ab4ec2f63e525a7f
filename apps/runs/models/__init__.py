"""A run, its steps, its weight versions, and the workers that serve it."""

from apps.runs.models.run import NotPossible, Run, StaleFence, after
from apps.runs.models.shares import TasksetShare
from apps.runs.models.spans import MetricSpan, metric_names, newest_values
from apps.runs.models.steps import Metric, TrainStep
from apps.runs.models.weights import Acknowledgement, WeightVersion
from apps.runs.models.worker import Worker

__all__ = [
    "Acknowledgement", "Metric", "MetricSpan", "NotPossible", "Run", "StaleFence", "TasksetShare", "TrainStep", "WeightVersion",
    "Worker", "after", "metric_names", "newest_values",
]  # fmt: skip
