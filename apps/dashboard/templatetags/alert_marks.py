"""The banner of open alerts on the pages of a run."""

from django import template
from django.template.context import RequestContext

from apps.dashboard.views.alerts import banner_context
from apps.runs.models import Run

register = template.Library()


@register.inclusion_tag("dashboard/_alert_banner.html", takes_context=True)
def alert_banner(context: RequestContext, run: Run, place: str) -> dict:
    """Return the banner's context; empty on the page of alerts itself."""
    return {} if place == "alerts" else banner_context(context["request"], run, place)
