"""Models of alerts, their history, the channels they are sent to, and the deliveries."""

from apps.alerts.models.alerts import Alert, AlertEntry
from apps.alerts.models.channels import Channel, Delivery

__all__ = ["Alert", "AlertEntry", "Channel", "Delivery"]
