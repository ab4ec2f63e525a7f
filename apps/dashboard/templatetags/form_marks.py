"""Errors of fields; and fields of a configuration's form, drawn once for each content."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from django import template
from django.forms import BoundField
from django.template.loader import render_to_string
from django.utils.html import format_html
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


Errors = BoundField | Iterable[str] | str | None


@register.simple_tag
def field_errors(errors: Errors, control: str = "") -> SafeString:
    """Return a field's errors as HTML, in the element that `error_attributes` refers to.

    `errors` is a field of a form, or its errors; `control` the id of the input, which a field that
    Django draws has already.
    """
    if not (text := _join_errors(errors)):
        return SafeString()
    return format_html(
        '<span class="field-error" id="{}">{}</span>', _errors_id(errors, control), text
    )


@register.simple_tag
def error_attributes(errors: Errors, control: str, described_by: str = "") -> SafeString:
    """Return attributes that mark an input with errors as invalid and refer to them.

    `described_by` are the ids of other elements that describe the input, with or without errors.
    """
    ids = described_by.split()
    if not _join_errors(errors):
        return format_html('aria-describedby="{}"', described_by) if ids else SafeString()
    ids.append(_errors_id(errors, control))
    return format_html('aria-invalid="true" aria-describedby="{}"', " ".join(ids))


def _join_errors(errors: Errors) -> str:
    texts = errors.errors if isinstance(errors, BoundField) else errors
    if not texts:
        return ""
    return texts if isinstance(texts, str) else " ".join(map(str, texts))


def _errors_id(errors: Errors, control: str) -> str:
    """Return the id of the element with the errors: the one to which Django's own inputs refer."""
    if not control and isinstance(errors, BoundField):
        control = errors.auto_id
    return f"{control}_error"
