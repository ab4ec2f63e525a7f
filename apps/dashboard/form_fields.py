"""Fields of a form whose offers a view or the form itself sets."""

from django import forms


def choice_field(form: forms.BaseForm, name: str) -> forms.ChoiceField:
    """Return the form's field of this name, which offers choices."""
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    return field


def model_field(form: forms.BaseForm, name: str) -> forms.ModelChoiceField:
    """Return the form's field of this name, which offers rows of a table."""
    field = form.fields[name]
    assert isinstance(field, forms.ModelChoiceField)
    return field
