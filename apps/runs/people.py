"""What a run asks of people: the form of a decision, who decides, how long it waits, and what their word becomes."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from apps.runs.algorithms.section import Positive, Section, Share

FormName = Literal["thumbs", "stars", "pairwise", "ranking", "best_worst", "rubric", "turns", "spans", "critique", "rewrite"]
# Forms that look at several rollouts of a group in one decision.
COMPARES: frozenset[str] = frozenset({"pairwise", "ranking", "best_worst"})
# Forms whose answer is no number: they give no reward by themselves.
WORDS_ONLY: frozenset[str] = frozenset({"critique", "rewrite", "spans"})
Name = Annotated[str, Field(min_length=1, max_length=150)]


class Scale(Section):
    name: str = Field(min_length=1, max_length=40, description="What is judged, such as `polite`.")
    low: int = Field(1, ge=-10, le=10, description="The worst value.")
    high: int = Field(5, ge=-10, le=10, description="The best value.")
    weight: float = Field(1.0, gt=0, le=100, allow_inf_nan=False, description="Its share in the mean of all scales.")
    description: str = Field("", max_length=300, description="What the rater reads beside it.")

    @model_validator(mode="after")
    def _rises(self) -> "Scale":
        if self.low >= self.high:
            raise ValueError(f"scale {self.name}: low {self.low} must be below high {self.high}")
        return self


class Raters(Section):
    people: tuple[Name, ...] = Field((), description="Accounts that may rate; empty, with no groups either: every rater.")
    groups: tuple[Name, ...] = Field((), description="Groups of accounts whose members may rate.")


class Gold(Section):
    rate: Share = Field(0.0, description="Share of a rater's decisions whose right answer is known.")
    attention: Share = Field(0.0, description="Share that only shows whether the rater reads: an obviously bad answer among them.")
    feedback: bool = Field(False, description="Tell the rater at once whether a gold answer was met.")


class Schedule(Section):
    """When a limited number of decisions is asked for (defaults: leverage.md, section 4)."""

    decisions: int = Field(ge=1, le=10_000_000, description="How many decisions the whole run may ask for.")
    first: Share = Field(0.2, description="Share of them asked before the first update.")
    first_at_least: int = Field(20, ge=0, description="And at least so many, if there are that many.")
    until: Share = Field(0.75, description="The rest is spread evenly up to this share of the run's steps.")
    rewrites: int = Field(0, ge=0, description="How many of the decisions ask for a rewrite instead.")
    rewrites_until: Share = Field(0.5, description="Rewrites are asked up to this share of the run's steps.")
    spread_share: float = Field(
        0.0, ge=0, le=0.5, description="Share asked about groups with the largest predicted spread; the others are random rows."
    )


class RaterModel(Section):
    """A model of the run's raters that gives every rollout the reward that they would."""

    kind: Literal["ridge", "scalar_head"] = Field(
        "ridge", description="Bayesian ridge on words and surprise, or a trained head once there are enough decisions."
    )
    head_from: int = Field(500, ge=50, description="Decisions from which a scalar head is trained.")
    at_least: int = Field(4, ge=2, description="No update before so many decisions.")
    pessimism: float = Field(0.0, ge=0, le=10, allow_inf_nan=False, description="The reward is mean − pessimism × deviation.")
    audits: Share = Field(
        0.25, description="Share of a schedule's decisions kept for random rows, predicted before they are learned; where nothing "
        "goes by predicted spread, and without a schedule, every decision is one.",
    )  # fmt: skip
    repeats: Share = Field(
        0.1,
        description="Share of a schedule's decisions asked a second time, to see how far people agree; none without a schedule.",
    )
    pause_on_red: bool = Field(
        True, description="Pause the run when its agreement with people is red, when it predicts more than they give, or when "
        "their words fall while its predictions rise: each only where that is more than chance.",
    )  # fmt: skip


class People(Section):
    form: FormName = Field("stars", description="What one decision looks like.")
    rubric: tuple[Scale, ...] = Field((), max_length=8, description="The scales of the form `rubric`.")
    guidelines: str = Field("", max_length=20_000, description="What raters should go by, in Markdown.")
    per_group: int = Field(0, ge=0, description="How many rollouts of a group wait for a person; 0 asks nobody.")
    domains: tuple[str, ...] = Field((), description="Asks about tasks of these domains alone; empty asks about all.")
    pairs: int = Field(0, ge=0, le=1000, description="Pairs asked per group by the form `pairwise`; 0: as many as rollouts asked.")
    anchor: bool = Field(True, description="Put an answer of the base weights into each ranking, so that its zero does not drift.")
    ask_first: Literal["worth", "disagreement"] = Field(
        "worth", description="Which of what waits comes first: groups with something to learn from, or replies on which scorers "
        "lie far from what people said, from what the rater model foretells, from what people usually say, or from each other.",
    )  # fmt: skip
    overlap: int = Field(1, ge=1, le=20, description="How many people decide each item.")
    open_stars: bool = Field(
        True,
        description="Take stars for a reply that its rater did not claim, while fewer than `overlap` "
        "people have rated or hold it; if false, only who holds an item rates it.",
    )
    raters: Raters = Field(Raters(), description="Who may rate.")
    open_claims: int = Field(3, ge=1, le=100, description="How many items one person may hold at a time.")
    lease_s: float | None = Field(
        None, gt=0, le=86_400, description="How long an item is held for a rater; empty: three times the median decision."
    )
    blind: bool = Field(True, description="Raters see neither others' ratings nor the weight version nor machine rewards.")
    steer: bool = Field(
        False, description="Raters too may stop an answer while it is written, edit it, or type it in the policy's place."
    )
    deadline_s: Positive = Field(60.0, description="How long a finished group waits for people, in seconds.")
    at_deadline: Literal["machine_only", "drop", "fill_with_rater_model"] = Field(
        "machine_only", description="What becomes of a group nobody judged in time; a rater model fills it, but for `drop`."
    )
    weight: Share = Field(
        1.0, description="Share of the person's reward where both have spoken; 1 lets the person replace the machine."
    )
    aggregation: Literal["mean", "weighted", "bradley_terry", "elo", "ranking"] = Field(
        "mean", description="How several votes become one reward; `weighted` by each rater's quality."
    )
    gold: Gold = Gold()
    schedule: Schedule | None = Field(None, description="A budget of decisions, spread over the run; empty asks about every group.")
    rater_model: RaterModel | None = Field(None, description="Fills the reward of every rollout from people's decisions.")
    simulated: bool = Field(False, description="Let the labelled simulated rater fill in for people.")

    def asks_about(self, domain: str) -> bool:
        """Whether groups of tasks of this domain wait for people."""
        return self.per_group > 0 and (not self.domains or domain in self.domains)

    @model_validator(mode="after")
    def _hangs_together(self) -> "People":
        if self.form == "rubric" and not self.rubric:
            raise ValueError("`form: rubric` needs at least one scale under `rubric`")
        if len({scale.name for scale in self.rubric}) < len(self.rubric):
            raise ValueError("two scales of the rubric have one name")
        if self.at_deadline == "fill_with_rater_model" and self.rater_model is None:
            raise ValueError("`at_deadline: fill_with_rater_model` needs a `rater_model`")
        if self.form in COMPARES and self.per_group == 1:
            raise ValueError(f"`form: {self.form}` compares answers: per_group must be 2 or more")
        if self.schedule and self.at_deadline == "drop":
            raise ValueError("a `schedule` leaves most groups unasked, and `at_deadline: drop` would drop them")
        if self.schedule and self.rater_model is None:
            raise ValueError("a `schedule` leaves most rollouts unrated: it needs a `rater_model` to fill them")
        if self.schedule and self.schedule.rewrites > self.schedule.decisions:
            raise ValueError("schedule.rewrites is more than schedule.decisions")
        if self.form in WORDS_ONLY and self.per_group and self.at_deadline == "drop":
            raise ValueError(f"`form: {self.form}` gives no number: take `at_deadline: machine_only`, or another form")
        return self
