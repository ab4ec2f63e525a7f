"""Human feedback of a run: the form of a decision, who decides, its deadline and its effect."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from apps.runs.algorithms.section import Positive, Section, Share

MAX_FORM_NAME_LENGTH = 20
# A built-in rating form, or one of a plugin: parsing.parse checks that it is there.
FormName = Annotated[str, Field(min_length=1, max_length=MAX_FORM_NAME_LENGTH)]
# Forms that look at several rollouts of a group in one decision.
COMPARES: frozenset[str] = frozenset({"pairwise", "ranking", "best_worst"})
# Forms whose answer is no number: they give no reward by themselves.
WORDS_ONLY: frozenset[str] = frozenset({"critique", "rewrite", "spans"})
Name = Annotated[str, Field(min_length=1, max_length=150)]
DomainGroup = Annotated[str, Field(max_length=200, pattern=r"^[^:]+: [^:]+$")]


class Scale(Section):
    name: str = Field(
        min_length=1, max_length=40, description="What this scale measures, such as `polite`."
    )
    low: int = Field(1, ge=-10, le=10, description="The worst value.")
    high: int = Field(5, ge=-10, le=10, description="The best value.")
    weight: float = Field(
        1.0, gt=0, le=100, allow_inf_nan=False, description="Its weight in the mean of all scales."
    )
    description: str = Field(
        "", max_length=300, description="Explanation that raters see beside the scale."
    )

    @model_validator(mode="after")
    def _rises(self) -> "Scale":
        if self.low >= self.high:
            raise ValueError(f"scale {self.name}: low {self.low} must be below high {self.high}")
        return self


class Raters(Section):
    people: tuple[Name, ...] = Field(
        (),
        description=(
            "Accounts that may rate. If people and groups are both empty, every rater may."
        ),
    )
    groups: tuple[Name, ...] = Field(
        (), description="Groups of the project’s raters whose members may rate."
    )
    domain_groups: tuple[DomainGroup, ...] = Field(
        (),
        description=(
            "Domains that only some groups rate, each as `domain: group`. Several groups can share "
            "a domain. All raters of the run rate the other domains."
        ),
    )

    def groups_by_domain(self) -> dict[str, list[str]]:
        """Return the groups that rate a domain, for the domains that only some groups rate."""
        groups: dict[str, list[str]] = {}
        for entry in self.domain_groups:
            domain, _, group = entry.partition(": ")
            groups.setdefault(domain, []).append(group)
        return groups


class Gold(Section):
    rate: Share = Field(
        0.0,
        description=(
            "Share of a rater's items that are gold items: their correct rating is known."
        ),
    )
    attention: Share = Field(
        0.0,
        description="Share of attention checks: items with an obviously bad reply.",
    )
    feedback: bool = Field(
        False, description="Show raters at once whether their rating of a gold item was correct."
    )


class Schedule(Section):
    """Budget of ratings and how it is spread over the run (docs/people.md, "Rater model")."""

    decisions: int = Field(
        ge=1, le=10_000_000, description="Maximum number of ratings in the whole run."
    )
    initial_share: Share = Field(
        0.2, description="Share of the ratings asked before the first step."
    )
    min_initial_ratings: int = Field(
        20,
        ge=0,
        description="Minimum number of ratings before the first step, if the budget allows it.",
    )
    end_share: Share = Field(
        0.75, description="The other ratings are spread evenly up to this share of the run's steps."
    )
    rewrites: int = Field(0, ge=0, description="How many of the ratings are rewrites.")
    rewrites_end_share: Share = Field(
        0.5, description="Rewrites are asked for up to this share of the run's steps."
    )
    spread_share: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description=(
            "Share of the ratings spent on groups with the largest predicted spread of rewards. "
            "The others are random."
        ),
    )


class RaterModel(Section):
    """A model of the run's raters that predicts a reward for every rollout."""

    kind: Literal["ridge", "scalar_head", "plugin"] = Field(
        "ridge",
        description=(
            "ridge is Bayesian ridge regression on words and base NLL. scalar_head is a trained "
            "head, used once there are enough ratings. plugin is your own model."
        ),
    )
    plugin: str = Field(
        "", max_length=60, description="Name of the plugin, for the kind `plugin` only."
    )
    options: dict[str, JsonValue] = Field({}, description="Options of that plugin.")
    head_min_ratings: int = Field(
        500, ge=50, description="Number of ratings from which a scalar head is trained."
    )
    min_ratings: int = Field(4, ge=2, description="Number of ratings needed before the first step.")
    pessimism: float = Field(
        0.0,
        ge=0,
        le=10,
        allow_inf_nan=False,
        description="The reward is mean − pessimism × deviation.",
    )
    audits: Share = Field(
        0.25,
        description=(
            "Share of a schedule's ratings that audit the model: random replies, predicted before "
            "the model learns from them. Without a schedule, or if no rating goes by predicted "
            "spread, every rating is an audit."
        ),
    )
    repeats: Share = Field(
        0.1,
        description=(
            "Share of a schedule's ratings asked a second time, to measure how consistent people "
            "are. Ignored without a schedule."
        ),
    )
    pause_on_red: bool = Field(
        True,
        description=(
            "Pause the run if the model disagrees with people, predicts more than people give, or "
            "predicts rising rewards while people's ratings fall, each by more than chance."
        ),
    )

    @model_validator(mode="after")
    def _names_its_plugin(self) -> "RaterModel":
        if (self.kind == "plugin") != bool(self.plugin):
            raise ValueError("`kind: plugin` needs the name of a `plugin`, and only that kind")
        return self


class People(Section):
    form: FormName = Field("stars", description="How raters judge in one rating.")
    form_options: dict[str, JsonValue] = Field(
        {}, description="Options of the rating form, if it is a plugin that has some."
    )
    rubric: tuple[Scale, ...] = Field((), max_length=8, description="Scales of the form `rubric`.")
    guidelines: str = Field(
        "", max_length=20_000, description="Rating guidelines that raters see, in Markdown."
    )
    per_group: int = Field(
        0, ge=0, description="Number of replies in a group that wait for a person. 0 asks nobody."
    )
    domains: tuple[str, ...] = Field(
        (), description="Ask only about tasks of these domains. If empty, about all tasks."
    )
    pairs: int = Field(
        0,
        ge=0,
        le=1000,
        description=(
            "Number of pairs per group for the form `pairwise`. 0: as many pairs as replies."
        ),
    )
    anchor: bool = Field(
        True,
        description=(
            "Add a reply of the base model to each ranking, so that the zero point does not drift."
        ),
    )
    ask_first: Literal["worth", "disagreement"] = Field(
        "worth",
        description=(
            "What raters get first: groups with the most to learn from, or replies on which "
            "scorers disagree most with people, the rater model or each other."
        ),
    )
    overlap: int = Field(1, ge=1, le=20, description="Number of people who rate each item.")
    open_stars: bool = Field(
        True,
        description=(
            "Accept star ratings for replies that the rater has not claimed, as long as fewer than "
            "`overlap` people have rated or claimed the reply. If off, only a person with a claim "
            "can rate."
        ),
    )
    raters: Raters = Field(Raters(), description="Who may rate.")
    open_claims: int = Field(
        3, ge=1, le=100, description="Number of items that one person may claim at a time."
    )
    lease_s: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description=(
            "How long a claim lasts, in seconds. If empty, three times the median time of a rating."
        ),
    )
    blind: bool = Field(
        True,
        description="Hide others' ratings, weight versions and machine rewards from raters.",
    )
    steer: bool = Field(
        False,
        description=(
            "Let raters, too, stop a reply while it is generated, edit it, or write it themselves."
        ),
    )
    deadline_s: Positive = Field(
        60.0, description="How long a finished group waits for ratings, in seconds."
    )
    at_deadline: Literal["machine_only", "drop", "fill_with_rater_model"] = Field(
        "machine_only",
        description=(
            "What happens to a group without ratings at the deadline. If there is a rater model, "
            "it fills in, except with `drop`."
        ),
    )
    weight: Share = Field(
        1.0,
        description=(
            "Share of people's rating in the reward if there is also a machine reward. With 1, the "
            "rating replaces it."
        ),
    )
    aggregation: Literal["mean", "weighted", "bradley_terry", "elo", "ranking"] = Field(
        "mean",
        description=(
            "How several ratings become one reward. `weighted` weights each rater by quality."
        ),
    )
    gold: Gold = Gold()
    schedule: Schedule | None = Field(
        None,
        description=(
            "Budget of ratings, spread over the run. If empty, raters are asked about every group."
        ),
    )
    rater_model: RaterModel | None = Field(
        None, description="Predicts the reward of every rollout from people's ratings."
    )
    show_guess: bool = Field(
        False,
        description=(
            "Show raters on My work what the rater model expected of their ratings, once they can "
            "no longer change them."
        ),
    )
    simulated: bool = Field(
        False,
        description="Let the simulated rater rate in place of people; its ratings are labelled.",
    )

    def asks_about(self, domain: str) -> bool:
        """Tell whether groups of tasks of this domain wait for people."""
        return self.per_group > 0 and (not self.domains or domain in self.domains)

    def pairs_among(self, replies: int) -> int:
        """Return how many pairs are asked about in a group with this many chosen replies."""
        return min(self.pairs or replies, replies * (replies - 1) // 2)

    @model_validator(mode="after")
    def _hangs_together(self) -> "People":
        if self.form == "rubric" and not self.rubric:
            raise ValueError("`form: rubric` needs at least one scale under `rubric`")
        if len({scale.name for scale in self.rubric}) < len(self.rubric):
            raise ValueError("two scales of the rubric have the same name")
        if self.at_deadline == "fill_with_rater_model" and self.rater_model is None:
            raise ValueError("`at_deadline: fill_with_rater_model` needs a `rater_model`")
        if self.show_guess and self.rater_model is None:
            raise ValueError("`show_guess` needs a `rater_model`")
        if self.form in COMPARES and self.per_group == 1:
            raise ValueError(f"`form: {self.form}` compares replies: per_group must be 2 or more")
        if self.schedule and self.at_deadline == "drop":
            raise ValueError(
                "a `schedule` leaves most groups without ratings, and `at_deadline: drop` would "
                "drop them"
            )
        if self.schedule and self.rater_model is None:
            raise ValueError(
                "a `schedule` leaves most rollouts without ratings: it needs a `rater_model` "
                "to fill them in"
            )
        if self.schedule and self.schedule.rewrites > self.schedule.decisions:
            raise ValueError("schedule.rewrites is more than schedule.decisions")
        if self.form in WORDS_ONLY and self.per_group and self.at_deadline == "drop":
            raise ValueError(
                f"`form: {self.form}` gives no number: use `at_deadline: machine_only` or another "
                "form"
            )
        return self
