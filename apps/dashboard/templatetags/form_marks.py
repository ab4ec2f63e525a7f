"""Fields of a configuration's form, drawn once for each content."""

from dataclasses import dataclass, field
from functools import lru_cache

from django import template
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.dashboard.knobs import Knob

register = template.Library()
DRAWN_KEPT = 4_000  # fields, about a kilobyte each; the form of a new run has 260


@dataclass(frozen=True)
class DrawnField:
    """A field with all that its HTML depends on; equal ones have the same `contents`."""

    contents: str
    project: str
    knob: Knob = field(compare=False)


@register.simple_tag
def draw_field(knob: Knob, project: str) -> SafeString:
    """Return the HTML of a field in a form of the project with this slug.

    Most of the fields of a long form are the same in each request, and the templates of hundreds
    of them take most of the time that the page takes.
    """
    return _render_knob(DrawnField(repr(knob), project, knob))


@lru_cache(maxsize=DRAWN_KEPT)
def _render_knob(drawn: DrawnField) -> SafeString:
    values = {"knob": drawn.knob, "project": {"slug": drawn.project}}
    return render_to_string("dashboard/_knob.html", values)
