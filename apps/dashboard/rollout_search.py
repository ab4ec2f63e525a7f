"""The filter of a run's list of rollouts, as it stands in the URL."""

import math
from typing import Any, TypeVar

from django import forms
from django.db.models import Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest

from apps.accounts.models import User
from apps.buffer.models import Experience, StepItem
from apps.dashboard.form_fields import choice_field
from apps.dashboard.paging import Page, load_page, page_within
from apps.dashboard.plain_widgets import PlainRenderer
from apps.dashboard.text_search import page_of_words
from apps.feedback.models import Rating
from apps.pipelines.models import CutRollout
from apps.rewards.combining_rows import combined_so_far
from apps.rewards.models import Reward, RewardQuerySet
from apps.rollouts.full_text_search import MatchesQuery, NoWords, ParsedQuery
from apps.rollouts.models import Rollout
from apps.rollouts.models.rollouts import RolloutQuerySet
from apps.runs.models import Run

R = TypeVar("R", bound=Rollout)
LOOKED_THROUGH = 5_000  # rollouts scanned at a time if there is no index for the filter
MAX_INTEGER = 2**31 - 1
SIMULATED = "simulated"  # besides the sources of rewards: the simulated rater's ratings only
# Both forms are needed: a condition other than equality is checked per rollout through an index,
# not over the whole table first.
ITS_OWN = {"rollout": OuterRef("pk"), "rollout__gte": OuterRef("pk")}


def _learned_as(*states: str) -> Exists:
    """Return a condition on the states of a rollout's experience.

    A subquery is used, not a join, so that a rollout that several steps used is one row. Expert
    rows made from the rollout do not count.
    """
    experiences = Experience.objects.filter(Q(kind=Experience.Kind.USUAL) | Q(reward=None))
    return Exists(experiences.filter(**ITS_OWN, state__in=states))


WORDS_HELP = (
    "Matches all words. Use * for any ending, quotes for a phrase, and - before a word to exclude"
    " it."
)


class Filter(forms.Form):
    """The filter; versions are those that sampled, steps those that trained.

    A rater is a person who gave a reward or a rating.
    """

    FATES = {
        "waiting": Q(group__state="waiting"),
        "admitted": _learned_as("ready", "claimed", "trained"),
        "trained": _learned_as("trained"),
        "dropped": Q(group__state="dropped") | _learned_as("dropped"),
        "failed": Q(state="failed"),
    }
    default_renderer = PlainRenderer
    # Filters for blind raters: the outcome of a reply reveals its ratings.
    BLIND = ("waiting", "failed")
    BLIND_FIELDS = ("fate", "text", "exact", "task", "taskset")
    # Fields with an index, as words and waiting groups have; other conditions are checked among the
    # rollouts that these find.
    BY_INDEX = ("task", "from_step", "to_step")
    WAITING = "waiting"
    WITHOUT_INDEX = (
        "exact",
        "source",
        "scorer",
        "reward_from",
        "reward_to",
        "version",
        "rater",
        "stop",
        "origin",
        "turns",
        "tokens_from",
        "tokens_to",
        "operator",
        "taskset",
    )
    sought: ParsedQuery | None = None  # the words, once they are parsed
    fate = forms.ChoiceField(
        choices=[("", "All"), *((name, name) for name in FATES)], required=False
    )
    text = forms.CharField(
        max_length=200,
        required=False,
        label="Words in the reply",
        widget=forms.TextInput(
            {"data-search": "", "placeholder": "sorry parc* -refund", "title": WORDS_HELP}
        ),
    )
    exact = forms.CharField(
        max_length=200,
        required=False,
        label="Exact text",
        strip=False,
        widget=forms.TextInput({"title": "Ignores case. Slow, because no index is used."}),
    )
    from_step = forms.IntegerField(
        min_value=0, max_value=MAX_INTEGER, required=False, label="Trained from step"
    )
    to_step = forms.IntegerField(
        min_value=0, max_value=MAX_INTEGER, required=False, label="To step"
    )
    task = forms.IntegerField(
        min_value=0, max_value=MAX_INTEGER, required=False, label="Task number"
    )
    taskset = forms.CharField(
        max_length=50,
        required=False,
        label="Taskset",
        widget=forms.TextInput({"list": "tasksets"}),
    )
    source = forms.ChoiceField(
        choices=[("", "Any"), *Reward.Source.choices, (SIMULATED, "Simulated rater")],
        required=False,
        label="Reward source",
    )
    scorer = forms.CharField(
        max_length=60, required=False, label="Scorer", widget=forms.TextInput({"list": "scorers"})
    )
    rater = forms.CharField(
        max_length=150,
        required=False,
        label="Rater",
        widget=forms.TextInput({"placeholder": "Username"}),
    )
    reward_from = forms.FloatField(
        required=False, label="Reward from", widget=forms.NumberInput({"step": "any"})
    )
    reward_to = forms.FloatField(
        required=False, label="Reward to", widget=forms.NumberInput({"step": "any"})
    )
    version = forms.IntegerField(
        min_value=0, max_value=MAX_INTEGER, required=False, label="Sampled by version"
    )
    stop = forms.CharField(
        max_length=60,
        required=False,
        label="Stop reason",
        widget=forms.TextInput({"placeholder": "length", "list": "stops"}),
    )
    origin = forms.ChoiceField(
        choices=[("", "Any except derived"), *Rollout.Origin.choices],
        required=False,
        label="Origin",
    )
    turns = forms.IntegerField(
        min_value=1, max_value=MAX_INTEGER, required=False, label="Turns, at least"
    )
    tokens_from = forms.IntegerField(
        min_value=0, max_value=MAX_INTEGER, required=False, label="Tokens from"
    )
    tokens_to = forms.IntegerField(
        min_value=0, max_value=MAX_INTEGER, required=False, label="Tokens to"
    )
    operator = forms.CharField(max_length=60, required=False, label="Excluded by operator")

    def __init__(self, *arguments: Any, is_open: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.is_open = is_open
        if not is_open:
            self.fields = {name: self.fields[name] for name in self.BLIND_FIELDS}
            choice_field(self, "fate").choices = [
                ("", "All"),
                *((name, name) for name in self.BLIND),
            ]

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Return the outcomes to filter by; "" stands for all."""
        return ("", *(self.FATES if self.is_open else self.BLIND))

    def clean_text(self) -> str:
        """Parse the words to search for. Raise ValidationError if none can be searched."""
        if typed := self.cleaned_data["text"]:
            try:
                self.sought = ParsedQuery.read(typed)
            except NoWords as error:
                raise forms.ValidationError(f"{error}.".capitalize()) from None
        return typed

    @property
    def searched(self) -> list[forms.BoundField]:
        """Return the fields of the search form: all but the outcome, which has tabs."""
        return [self[name] for name in self.fields if name != "fate"]

    @property
    def criteria(self) -> dict:
        """Return the valid values; invalid fields filter nothing, and the page says so."""
        return {
            name: value
            for name, value in getattr(self, "cleaned_data", {}).items()
            if value not in (None, "")
        }

    @property
    def is_searched(self) -> bool:
        return any(
            name in self.criteria or name in self.errors for name in self.fields if name != "fate"
        )

    def page(self, run: Run, rollouts: QuerySet[R], request: HttpRequest) -> Page[R]:
        """Return the page of results of `narrow` that the URL asks for."""
        if self.sought:
            return page_of_words(
                rollouts, self.sought, run, request, among=self.among(run), reach=self.reach
            )
        if self.reach:
            return page_within(rollouts, self.among(run), self.reach, request, within="run_id")
        return load_page(rollouts, request, within="run_id")

    @property
    def one_step(self) -> int | None:
        """Return the step whose batch is shown, if the filter names a single one."""
        first, last = (self.criteria.get(name) for name in ("from_step", "to_step"))
        return first if first == last else None

    @property
    def reach(self) -> int | None:
        """Return how many rollouts of `among` to scan at a time; None if an index finds them."""
        criteria = self.criteria
        is_looked_for = (
            any(name in criteria for name in self.WITHOUT_INDEX)
            or criteria.get("fate", self.WAITING) != self.WAITING
        )
        in_two = "text" in criteria and (
            any(name in criteria for name in self.BY_INDEX) or "fate" in criteria
        )
        return LOOKED_THROUGH if is_looked_for or in_two else None

    def among(self, run: Run) -> QuerySet[Rollout]:
        """Return the rollouts that an index finds, without the words.

        The remaining conditions are checked on these.
        """
        rollouts = self._by_index(run, Rollout.objects.of_run(run))
        return (
            rollouts.filter(self.FATES[self.WAITING])
            if self.criteria.get("fate") == self.WAITING
            else rollouts
        )

    @property
    def is_narrowed(self) -> bool:
        """Tell whether `among` is less than the whole run."""
        return (
            any(name in self.criteria for name in self.BY_INDEX)
            or self.criteria.get("fate") == self.WAITING
        )

    def narrow(self, run: Run, rollouts: RolloutQuerySet) -> QuerySet[Rollout]:
        """Apply all conditions but the words.

        Words are searched in one part of the run at a time (apps.dashboard.text_search).
        """
        criteria = self.criteria
        if fate := criteria.get("fate"):
            rollouts = rollouts.filter(self.FATES[fate])
        if exact := criteria.get("exact"):
            rollouts = rollouts.filter(text__icontains=exact)
        rows = self._by_index(run, self._filter_by_columns(rollouts))
        if taskset := criteria.get("taskset"):
            rows = rows.filter(group__task__taskset__slug=taskset)
        if operator := criteria.get("operator"):
            rows = rows.filter(Exists(CutRollout.objects.filter(**ITS_OWN, operator=operator)))
        return self._filter_by_rewards(run, rows)

    def matching(self, run: Run, rollouts: RolloutQuerySet) -> QuerySet[Rollout]:
        """Apply all conditions including the words, to read the whole run, not a page."""
        narrowed = self.narrow(run, rollouts)
        if self.sought is None:
            return narrowed
        return narrowed.filter(*self.sought.phrases, MatchesQuery(self.sought.anywhere(run.pk)))

    def _filter_by_columns(self, rollouts: RolloutQuerySet) -> RolloutQuerySet:
        criteria = self.criteria
        rollouts = (
            rollouts.filter(origin=criteria["origin"])
            if "origin" in criteria
            else rollouts.without_anchors()
        )
        if "version" in criteria:
            rollouts = rollouts.filter(
                first_version__lte=criteria["version"], last_version__gte=criteria["version"]
            )
        if "stop" in criteria:
            rollouts = rollouts.filter(stop_reason__istartswith=criteria["stop"])
        if criteria.get("turns", 1) > 1:  # a rollout without stored turns has one
            counted = Func(F("turns"), function="jsonb_array_length", output_field=IntegerField())
            rollouts = rollouts.alias(turn_count=counted).filter(turn_count__gte=criteria["turns"])
        return rollouts.filter(**self._bounds("completion_tokens", "tokens_from", "tokens_to"))

    def _by_index(self, run: Run, rollouts: QuerySet[Rollout]) -> QuerySet[Rollout]:
        criteria = self.criteria
        if "task" in criteria:
            rollouts = rollouts.filter(group__task__in=run.tasks.filter(index=criteria["task"]))
        if trained := self._bounds("step__number", "from_step", "to_step"):
            rollouts = rollouts.filter(
                Exists(StepItem.objects.filter(experience__rollout=OuterRef("pk"), **trained))
            )
        return rollouts

    def _filter_by_rewards(self, run: Run, rollouts: QuerySet[Rollout]) -> QuerySet[Rollout]:
        """Apply the conditions on rewards.

        Source, scorer and range must hold for one reward; a range alone is about the combined
        reward.
        """
        criteria = self.criteria
        rewards = Reward.objects.filter(**ITS_OWN, is_current=True)
        if "source" in criteria or "scorer" in criteria:
            of_scorer = {"scorer": criteria["scorer"]} if "scorer" in criteria else {}
            judges = _from_source(rewards, criteria.get("source", ""))
            rollouts = rollouts.filter(Exists(judges.filter(**of_scorer, **self.bounds("value"))))
        elif rewarded := self.bounds("reward"):
            rollouts = _rewarded(rollouts, run, rewarded)
        if rater := criteria.get("rater"):
            person = Subquery(User.objects.filter(username=rater).values("pk"))
            ratings = Rating.objects.filter(**ITS_OWN, rater=person)
            rollouts = rollouts.filter(Exists(rewards.filter(by=person)) | Exists(ratings))
        return rollouts

    def bounds(self, column: str) -> dict:
        """Return the conditions of the reward range on this column."""
        return self._bounds(column, "reward_from", "reward_to")

    def _bounds(self, column: str, low: str, high: str) -> dict:
        """Return the conditions on a column from two fields."""
        return {
            f"{column}__{how}": self.criteria[name]
            for name, how in ((low, "gte"), (high, "lte"))
            if name in self.criteria
        }


def _from_source(rewards: RewardQuerySet, source: str) -> RewardQuerySet:
    """Return the rewards from this source; those of the simulated rater are not people's."""
    if source == Reward.Source.HUMAN:
        return rewards.by_people()
    if source == SIMULATED:
        return rewards.simulated()
    return rewards.filter(source=source) if source else rewards


def _rewarded(rollouts: QuerySet[Rollout], run: Run, bounds: dict) -> QuerySet[Rollout]:
    """Return the rollouts whose reward is in the range.

    It is the reward at admission; for rollouts not admitted, the combination of ratings so far.
    """
    learned = Experience.objects.filter(**ITS_OWN)
    ends = (
        bounds.get("reward__gte", -math.inf),
        bounds.get("reward__lte", math.inf),
    )  # one range, so that the value is computed once
    so_far = ~Exists(learned) & Q(so_far__range=ends)
    return rollouts.alias(so_far=combined_so_far(run.settings)).filter(
        Exists(learned.filter(**bounds)) | so_far
    )
