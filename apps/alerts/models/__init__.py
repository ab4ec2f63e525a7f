"""Alerts, what happened to each, where they are told, and each telling."""

from apps.alerts.models.alerts import Alert, AlertEntry
from apps.alerts.models.channels import Channel, Delivery

__all__ = ["Alert", "AlertEntry", "Channel", "Delivery"]
