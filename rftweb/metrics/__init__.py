"""Metrics for Prometheus: of runs and workers (`runs`), and of this web process (`process`)."""

from rftweb.metrics.view import Metrics

__all__ = ["Metrics"]
