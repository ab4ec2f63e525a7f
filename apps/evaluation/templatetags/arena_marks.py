"""Tell the rating pages how many blind arenas wait for their reader."""

from django import template
from django.template import RequestContext

from apps.evaluation.models import Arena

register = template.Library()


@register.simple_tag(takes_context=True)
def count_open_arenas(context: RequestContext) -> int:
    """Return how many open arenas the reader may judge in. One statement."""
    return Arena.objects.judged_by(context["request"].user).open().count()
