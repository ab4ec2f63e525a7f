"""Figures for Prometheus: what the rows say of runs and workers (`runs`), and what this web process says of itself (`process`)."""

from rftweb.metrics.view import Metrics

__all__ = ["Metrics"]
