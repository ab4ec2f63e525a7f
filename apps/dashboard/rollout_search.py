"""What the list of a run's rollouts can be asked for, as it stands in the URL."""

import math

from django import forms
from django.db.models import Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest

from apps.accounts.models import User
from apps.buffer.models import Experience, StepItem
from apps.dashboard.paging import Page, page_of, page_within
from apps.dashboard.worded import page_of_words
from apps.feedback.models import Rating
from apps.pipelines.models import CutRollout
from apps.rewards.combining_rows import combined_so_far
from apps.rewards.models import Reward, RewardQuerySet
from apps.rollouts.models import Rollout
from apps.rollouts.words import NoWords, Says, Sought
from apps.runs.models import Run

LOOKED_THROUGH = 5_000  # rollouts at a time, where what is asked for has no index
LARGEST = 2**31 - 1
SIMULATED = "simulated"  # beside the sources of rewards: what the simulated rater alone said
# Said twice: what is no plain equation is asked of each rollout by an index, not of the whole table beforehand.
ITS_OWN = {"rollout": OuterRef("pk"), "rollout__gte": OuterRef("pk")}


def _learned_as(*states: str) -> Exists:
    """Asked as a question, not joined: a rollout that was learned from in several updates is one row of the list.

    An expert row that was made of it has a reward, and tells nothing of what became of it as a sample.
    """
    own = Experience.objects.filter(Q(kind=Experience.Kind.USUAL) | Q(reward=None))
    return Exists(own.filter(**ITS_OWN, state__in=states))


WORDS_HELP = "All of them are there. A * stands for any end, quotes keep words together, a - before a word leaves it out."


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
    BLIND, BLIND_FIELDS = ("waiting", "failed"), ("fate", "text", "exact", "task", "taskset")
    # Found by an index, as words are, and waiting groups: what has none is looked for among these alone.
    BY_INDEX, WAITING = ("task", "from_step", "to_step"), "waiting"
    WITHOUT_INDEX = (
        "exact", "source", "scorer", "reward_from", "reward_to", "version", "rater", "stop", "origin", "turns", "tokens_from",
        "tokens_to", "operator", "taskset",
    )  # fmt: skip
    sought: Sought | None = None  # the words, once they are read
    fate = forms.ChoiceField(choices=[("", "all"), *((name, name) for name in FATES)], required=False)
    text = forms.CharField(
        max_length=200, required=False, label="words in the reply",
        widget=forms.TextInput({"data-search": "", "placeholder": "sorry parc* -refund", "title": WORDS_HELP}),
    )  # fmt: skip
    exact = forms.CharField(
        max_length=200, required=False, label="these very characters", strip=False,
        widget=forms.TextInput({"title": "However they are cased. No index finds them: texts are looked through."}),
    )  # fmt: skip
    from_step = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="trained from step")
    to_step = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="to step")
    task = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="task number")
    taskset = forms.CharField(max_length=50, required=False, label="of taskset", widget=forms.TextInput({"list": "tasksets"}))
    source = forms.ChoiceField(
        choices=[("", "anybody"), *Reward.Source.choices, (SIMULATED, "simulated rater")],
        required=False,
        label="judged by",
    )
    scorer = forms.CharField(max_length=60, required=False, label="scorer", widget=forms.TextInput({"list": "scorers"}))
    rater = forms.CharField(max_length=150, required=False, label="rater", widget=forms.TextInput({"placeholder": "a name"}))
    reward_from = forms.FloatField(required=False, label="reward from", widget=forms.NumberInput({"step": "any"}))
    reward_to = forms.FloatField(required=False, label="reward to", widget=forms.NumberInput({"step": "any"}))
    version = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="sampled by version")
    stop = forms.CharField(
        max_length=60, required=False, label="stopped by", widget=forms.TextInput({"placeholder": "length", "list": "stops"})
    )
    origin = forms.ChoiceField(choices=[("", "any but made"), *Rollout.Origin.choices], required=False, label="origin")
    turns = forms.IntegerField(min_value=1, max_value=LARGEST, required=False, label="turns, at least")
    tokens_from = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="tokens from")
    tokens_to = forms.IntegerField(min_value=0, max_value=LARGEST, required=False, label="tokens to")
    operator = forms.CharField(max_length=60, required=False, label="left out by operator")

    def __init__(self, *arguments: object, is_open: bool, **options: object) -> None:
        super().__init__(*arguments, **options)
        if not is_open:
            self.fields = {name: self.fields[name] for name in self.BLIND_FIELDS}
            self.fields["fate"].choices = [("", "all"), *((name, name) for name in self.BLIND)]

    def clean_text(self) -> str:
        """Raises ValidationError where no word of it could be found."""
        if typed := self.cleaned_data["text"]:
            try:
                self.sought = Sought.read(typed)
            except NoWords as error:
                raise forms.ValidationError(f"{error}.".capitalize()) from None
        return typed

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

    def page(self, run: Run, found: QuerySet[Rollout], request: HttpRequest) -> Page:
        """The page of what `narrow` found that the URL asks for."""
        if self.sought:
            return page_of_words(found, self.sought, run, request, among=self.among(run), reach=self.reach)
        if self.reach:
            return page_within(found, self.among(run), self.reach, request, within="run_id")
        return page_of(found, request, within="run_id")

    @property
    def one_step(self) -> int | None:
        """The update whose batch is asked for, where it is a single one."""
        first, last = (self.wanted.get(name) for name in ("from_step", "to_step"))
        return first if first == last else None

    @property
    def reach(self) -> int | None:
        """How many rollouts of `among` to look through at a time; None: one index finds all that is asked for."""
        asked = self.wanted
        is_looked_for = any(name in asked for name in self.WITHOUT_INDEX) or asked.get("fate", self.WAITING) != self.WAITING
        in_two = "text" in asked and (any(name in asked for name in self.BY_INDEX) or "fate" in asked)
        return LOOKED_THROUGH if is_looked_for or in_two else None

    def among(self, run: Run) -> QuerySet[Rollout]:
        """What an index finds of what is asked for, words left out: the rest is looked for among these."""
        found = self._by_index(run, Rollout.objects.of_run(run))
        return found.filter(self.FATES[self.WAITING]) if self.wanted.get("fate") == self.WAITING else found

    @property
    def is_narrowed(self) -> bool:
        """Whether `among` is less than the whole run."""
        return any(name in self.wanted for name in self.BY_INDEX) or self.wanted.get("fate") == self.WAITING

    def narrow(self, run: Run, found: QuerySet[Rollout]) -> QuerySet[Rollout]:
        """All that is asked for but the words, which are looked for a part of the run at a time (apps.dashboard.worded)."""
        wanted = self.wanted
        if fate := wanted.get("fate"):
            found = found.filter(self.FATES[fate])
        if exact := wanted.get("exact"):
            found = found.filter(text__icontains=exact)
        found = self._by_index(run, self._of_the_row(found))
        if taskset := wanted.get("taskset"):
            found = found.filter(group__task__taskset__slug=taskset)
        if operator := wanted.get("operator"):
            found = found.filter(Exists(CutRollout.objects.filter(**ITS_OWN, operator=operator)))
        return self._of_its_judges(run, found)

    def found(self, run: Run, found: QuerySet[Rollout]) -> QuerySet[Rollout]:
        """All that is asked for, the words with it: for who reads all of the run, not a page."""
        found = self.narrow(run, found)
        if self.sought is None:
            return found
        return found.filter(*self.sought.phrases, Says(self.sought.anywhere(run.pk)))

    def _of_the_row(self, found: QuerySet[Rollout]) -> QuerySet[Rollout]:
        wanted = self.wanted
        found = found.filter(origin=wanted["origin"]) if "origin" in wanted else found.without_anchors()
        if "version" in wanted:
            found = found.filter(first_version__lte=wanted["version"], last_version__gte=wanted["version"])
        if "stop" in wanted:
            found = found.filter(stop_reason__istartswith=wanted["stop"])
        if wanted.get("turns", 1) > 1:  # what keeps no turns is one
            counted = Func(F("turns"), function="jsonb_array_length", output_field=IntegerField())
            found = found.alias(turn_count=counted).filter(turn_count__gte=wanted["turns"])
        return found.filter(**self._bounds("completion_tokens", "tokens_from", "tokens_to"))

    def _by_index(self, run: Run, found: QuerySet[Rollout]) -> QuerySet[Rollout]:
        wanted = self.wanted
        if "task" in wanted:
            found = found.filter(group__task__in=run.tasks.filter(index=wanted["task"]))
        if trained := self._bounds("step__number", "from_step", "to_step"):
            found = found.filter(Exists(StepItem.objects.filter(experience__rollout=OuterRef("pk"), **trained)))
        return found

    def _of_its_judges(self, run: Run, found: QuerySet[Rollout]) -> QuerySet[Rollout]:
        """A source, a scorer and a range are about one reward; a range alone is about what was made of all."""
        wanted, said = self.wanted, Reward.objects.filter(**ITS_OWN, is_current=True)
        if "source" in wanted or "scorer" in wanted:
            one = {"scorer": wanted["scorer"]} if "scorer" in wanted else {}
            judges = _by(said, wanted.get("source", ""))
            found = found.filter(Exists(judges.filter(**one, **self.bounds("value"))))
        elif rewarded := self.bounds("reward"):
            found = _rewarded(found, run, rewarded)
        if rater := wanted.get("rater"):
            person = Subquery(User.objects.filter(username=rater).values("pk"))
            own = Rating.objects.filter(**ITS_OWN, rater=person)
            found = found.filter(Exists(said.filter(by=person)) | Exists(own))
        return found

    def bounds(self, column: str) -> dict:
        """The range of rewards that is asked for, of this column."""
        return self._bounds(column, "reward_from", "reward_to")

    def _bounds(self, column: str, low: str, high: str) -> dict:
        """The column's bounds, from these two fields."""
        return {f"{column}__{how}": self.wanted[name] for name, how in ((low, "gte"), (high, "lte")) if name in self.wanted}


def _by(said: RewardQuerySet, source: str) -> RewardQuerySet:
    """Keep the judgements of this source; the simulated rater's are no person's."""
    if source == Reward.Source.HUMAN:
        return said.by_people()
    if source == SIMULATED:
        return said.simulated()
    return said.filter(source=source) if source else said


def _rewarded(found: QuerySet[Rollout], run: Run, bounds: dict) -> QuerySet[Rollout]:
    """With such a reward: at admission; of what was never admitted, what its judges have said so far makes it."""
    learned = Experience.objects.filter(**ITS_OWN)
    ends = bounds.get("reward__gte", -math.inf), bounds.get("reward__lte", math.inf)  # as one range it is reckoned once
    so_far = ~Exists(learned) & Q(so_far__range=ends)
    return found.alias(so_far=combined_so_far(run.settings)).filter(Exists(learned.filter(**bounds)) | so_far)
