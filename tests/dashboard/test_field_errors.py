"""Errors of fields, tied to their inputs."""

from django import forms
from django.template import Context, Template


class NameForm(forms.Form):
    name = forms.CharField(max_length=3)
    days = forms.IntegerField()


def render(source: str, **values: object) -> str:
    return Template("{% load form_marks %}" + source).render(Context(values))


def test_input_with_errors_is_invalid_and_refers_to_them():
    form = NameForm({"name": "<long>", "days": 1})
    control = render('<input {% error_attributes form.name "n" "help-n" %}>', form=form)
    assert control == '<input aria-invalid="true" aria-describedby="help-n n_error">'
    errors = render('{% field_errors form.name "n" %}', form=form)
    assert errors.startswith(
        '<span class="field-error" id="n_error">Ensure this value has at most 3'
    )


def test_input_without_errors_keeps_its_description_only():
    form = NameForm({"name": "ab", "days": 1})
    assert render('{% error_attributes form.name "n" %}', form=form) == ""
    described = render('{% error_attributes form.name "n" "help-n" %}', form=form)
    assert described == 'aria-describedby="help-n"'
    assert render('{% field_errors form.name "n" %}', form=form) == ""


def test_input_drawn_by_django_refers_to_its_errors():
    field = NameForm({"name": "ab", "days": "soon"})["days"]
    shown = render("{{ field }}{% field_errors field %}", field=field)
    assert 'aria-describedby="id_days_error"' in shown and 'id="id_days_error"' in shown


def test_several_errors_of_a_plain_list_are_escaped_and_joined():
    shown = render('{% field_errors errors "n" %}', errors=["<b>", "no"])
    assert shown == '<span class="field-error" id="n_error">&lt;b&gt; no</span>'
    assert 'aria-describedby="n_error"' in render('{% error_attributes e "n" %}', e="wrong")
    assert render('{% field_errors missing.taskset "n" %}') == ""
