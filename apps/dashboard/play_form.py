"""Forms for a person who plays the environment: the next observation, its reward, or the end."""

from django import forms

from apps.environments.models import Episode
from apps.environments.observations import MAX_OBSERVATION_LENGTH

ENDINGS = {
    "done": "Completed",
    "failed": "Failed: no reward",
    "abandoned": "Abandoned: no reward",
}


class SayForm(forms.Form):
    """The next observation; its number makes a repeated submission harmless."""

    number = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)
    observation = forms.CharField(
        max_length=MAX_OBSERVATION_LENGTH,
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 5, "dir": "auto"}),
        label="Next observation",
    )
    reward = forms.FloatField(required=False, label="Reward of the last action")
    done = forms.BooleanField(required=False, label="End of the episode")


class EndForm(forms.Form):
    """The end of an episode without a further observation."""

    outcome = forms.ChoiceField(choices=ENDINGS.items())
    reward = forms.FloatField(required=False, label="Reward of the last action")
    reason = forms.CharField(max_length=300, required=False, label="Reason")


def say_form(episode: Episode, data: dict | None = None) -> SayForm:
    """Return the form of the next observation, with bounds for the reward."""
    form = SayForm(data, auto_id="play-%s", initial={"number": episode.turns})
    form.fields["reward"].widget.attrs |= {
        "min": episode.environment.reward_low,
        "max": episode.environment.reward_high,
        "step": "any",
    }
    return form


def end_form(data: dict | None = None) -> EndForm:
    return EndForm(data, auto_id="end-%s", initial={"outcome": "done"})
