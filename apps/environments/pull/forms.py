"""Form of an environment in the administration, with validation errors at their fields."""

from django import forms

from apps.environments.models import Environment
from apps.environments.pull.registering import require_callable


class EnvironmentForm(forms.ModelForm):
    class Meta:
        model = Environment
        exclude = ("failures", "open_until", "open_reason", "created_by", "created_at")

    def clean(self) -> dict:
        super().clean()
        cleaned = self.cleaned_data
        if {"kind", "address", "options"} <= cleaned.keys():
            require_callable(
                Environment(
                    kind=cleaned["kind"],
                    address=cleaned["address"],
                    options=cleaned["options"] or {},
                )
            )
        return cleaned
