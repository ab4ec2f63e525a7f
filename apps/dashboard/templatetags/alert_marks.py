"""The banner of open alerts, on each of a run's pages."""

from django import template
from django.template.context import RequestContext

from apps.alerts.kinds import TO_STEERERS
from apps.dashboard.views.alerts import banner_of
from apps.runs.models import Run

register = template.Library()


@register.inclusion_tag("dashboard/_alert_banner.html", takes_context=True)
def alert_banner(context: RequestContext, run: Run, place: str) -> dict:
    """Nothing on the page of alerts itself. The overview tells of scorers and suspicions by itself."""
    if place == "alerts":
        return {}
    told = banner_of(context["request"], run)
    if place == "overview":
        told["told"] = [alert for alert in told["told"] if alert.rule not in TO_STEERERS]
    return told
