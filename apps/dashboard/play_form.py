"""What a person who plays an environment writes: what the policy sees next, what its last action earned, or how it ends."""

from django import forms

from apps.environments.models import Episode
from apps.environments.observations import LONGEST

ENDINGS = {"done": "It is over, as was meant", "failed": "It broke: no reward", "abandoned": "Nobody goes on with it: no reward"}


class SayForm(forms.Form):
    """The next observation. Its number says which: sent twice it is said once."""

    number = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)
    observation = forms.CharField(
        max_length=LONGEST,
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 5, "dir": "auto"}),
        label="What the policy sees next",
    )
    reward = forms.FloatField(required=False, label="Reward of its last action")
    done = forms.BooleanField(required=False, label="The end: nothing follows")


class EndForm(forms.Form):
    """The end of an episode without a further observation."""

    outcome = forms.ChoiceField(choices=ENDINGS.items())
    reward = forms.FloatField(required=False, label="Reward of its last action")
    reason = forms.CharField(max_length=300, required=False, label="Why")


def say_form(episode: Episode, data: dict | None = None) -> SayForm:
    """For the observation that comes next; before the first one nothing was done, and nothing is earned."""
    form = SayForm(data, auto_id="play-%s", initial={"number": episode.turns})
    form.fields["reward"].widget.attrs |= {
        "min": episode.environment.reward_low, "max": episode.environment.reward_high, "step": "any",
    }  # fmt: skip
    return form


def end_form(data: dict | None = None) -> EndForm:
    return EndForm(data, auto_id="end-%s", initial={"outcome": "done"})
