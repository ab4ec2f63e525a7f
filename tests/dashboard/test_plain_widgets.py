"""Widgets that are written without templates are those that Django's templates write."""

import re

import pytest
from django import forms
from django.forms.renderers import DjangoTemplates

from apps.dashboard.plain_widgets import PlainRenderer

FIELDS = {
    "text": forms.CharField(
        required=False, max_length=9, widget=forms.TextInput({"title": 'a "b"', "data-search": ""})
    ),
    "number": forms.IntegerField(min_value=0, required=False),
    "required": forms.FloatField(widget=forms.NumberInput({"step": "any"})),
    "choice": forms.ChoiceField(choices=[("", "Any"), ("a<b", "A & B"), (3, "three")]),
    "disabled": forms.CharField(disabled=True),
    "grouped": forms.ChoiceField(choices=[("Group", [("x", "X")])]),
    "long": forms.CharField(widget=forms.Textarea),
}
DATA = {"text": '<b>"', "number": "x", "required": "2.50", "choice": "3", "grouped": "x"}


def written(renderer: type[DjangoTemplates], name: str, data: dict[str, str] | None) -> str:
    form = type("Sample", (forms.Form,), dict(FIELDS))(data, renderer=renderer())
    return re.sub(r"\s*\n\s*", "", str(form[name]))


@pytest.mark.parametrize("data", [None, DATA], ids=["empty", "filled"])
@pytest.mark.parametrize("name", FIELDS)
def test_widget_is_written_as_django_writes_it(name, data):
    assert written(PlainRenderer, name, data) == written(DjangoTemplates, name, data)
