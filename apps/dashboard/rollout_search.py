"""What the list of a run's rollouts can be asked for, as it stands in the URL."""

from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.buffer.models import Experience, StepItem
from apps.feedback.models import Rating
from apps.pipelines.models import CutRollout
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run

# Rollouts looked through at a time, where what is asked for has no index; every text that is read costs.
LOOKED_THROUGH, TEXTS_READ = 100_000, 20_000
LARGEST = 2**31 - 1


def _learned_as(*states: str) -> Exists:
    """Asked as a question, not joined: a rollout that was learned from in several updates is one row of the list.

    An expert row that was made of it has a reward, and tells nothing of what became of it as a sample.
    """
    own = Experience.objects.filter(Q(kind=Experience.Kind.USUAL) | Q(reward=None))
    return Exists(own.filter(rollout=OuterRef("pk"), state__in=states))


class Filter(forms.Form):
    """Versions are those that sampled; steps those that trained; a rater is who gave a reward or a rating of their own."""

    FATES = {
        "waiting": Q(group__state="waiting"),
        "admitted": _learned_as("ready", "claimed", "trained"),
        "trained": _learned_as("trained"),
        "dropped": Q(group__state="dropped") | _learned_as("dropped"),
        "failed": Q(state="failed"),
    }
    # What a blind person may ask for: what becomes of a reply tells how it was judged.
    BLIND, BLIND_FIELDS = ("waiting", "failed"), ("fate", "text", "task")
    WITHOUT_INDEX = ("text", "reward_from", "reward_to", "version", "rater", "operator")
    fate = forms.ChoiceField(choices=[("", "all"), *((name, name) for name in FATES)], required=False)
    text = forms.CharField(max_length=200, required=False, label="words in the reply", widget=forms.TextInput({"data-search": ""}))
    task = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="task number")
    reward_from = forms.FloatField(required=False, label="reward from", widget=forms.NumberInput({"step": "any"}))
    reward_to = forms.FloatField(required=False, label="reward to", widget=forms.NumberInput({"step": "any"}))
    version = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="sampled by version")
    rater = forms.CharField(max_length=150, required=False, label="judged by", widget=forms.TextInput({"placeholder": "a name"}))
    operator = forms.CharField(max_length=60, required=False, label="left out by operator")
    from_step = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="trained from step")
    to_step = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="to step")

    def __init__(self, *arguments: object, is_open: bool, **options: object) -> None:
        super().__init__(*arguments, **options)
        if not is_open:
            self.fields = {name: self.fields[name] for name in self.BLIND_FIELDS}
            self.fields["fate"].choices = [("", "all"), *((name, name) for name in self.BLIND)]

    @property
    def searched(self) -> list[forms.BoundField]:
        """The fields of the search form: all but the fate, which has tabs."""
        return [self[name] for name in self.fields if name != "fate"]

    @property
    def wanted(self) -> dict:
        """What is asked for; fields that are wrong narrow nothing, and the page says so beside them."""
        return {name: value for name, value in getattr(self, "cleaned_data", {}).items() if value not in (None, "")}

    @property
    def is_searched(self) -> bool:
        return any(name in self.wanted or name in self.errors for name in self.fields if name != "fate")

    @property
    def reach(self) -> int | None:
        """How many rollouts to look through at a time; None: an index finds them."""
        wanted = self.wanted
        if {"task", "from_step", "to_step"} & set(wanted) or not any(name in wanted for name in self.WITHOUT_INDEX):
            return None
        return TEXTS_READ if "text" in wanted else LOOKED_THROUGH

    def narrow(self, run: Run, found: QuerySet[Rollout]) -> QuerySet[Rollout]:
        wanted = self.wanted
        if fate := wanted.get("fate"):
            found = found.filter(self.FATES[fate])
        if text := wanted.get("text"):
            found = found.filter(text__icontains=text)
        if "task" in wanted:
            found = found.filter(group__task__in=run.tasks.filter(index=wanted["task"]))
        if "version" in wanted:
            found = found.filter(first_version__lte=wanted["version"], last_version__gte=wanted["version"])
        if rater := wanted.get("rater"):
            said = Rating.objects.filter(rollout=OuterRef("pk"), rater__username=rater)
            found = found.filter(Exists(Reward.objects.filter(rollout=OuterRef("pk"), by__username=rater)) | Exists(said))
        if operator := wanted.get("operator"):
            found = found.filter(Exists(CutRollout.objects.filter(rollout=OuterRef("pk"), operator=operator)))
        if rewarded := self._bounds("reward", "reward_from", "reward_to"):
            found = found.filter(_rewarded(rewarded))
        if trained := self._bounds("step__number", "from_step", "to_step"):
            found = found.filter(Exists(StepItem.objects.filter(experience__rollout=OuterRef("pk"), **trained)))
        return found

    def _bounds(self, column: str, low: str, high: str) -> dict:
        """The column's bounds, from these two fields."""
        return {f"{column}__{how}": self.wanted[name] for name, how in ((low, "gte"), (high, "lte")) if name in self.wanted}


def _rewarded(bounds: dict) -> Q:
    """With such a reward at admission; or never admitted, and some judge's reward is such."""
    learned = Experience.objects.filter(rollout=OuterRef("pk"))
    said = Reward.objects.filter(rollout=OuterRef("pk"), is_current=True, **{f"value{name[6:]}": v for name, v in bounds.items()})
    return Exists(learned.filter(**bounds)) | (~Exists(learned) & Exists(said))
