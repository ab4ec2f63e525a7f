"""Choice of the rule by which a run samples tasks, by name.

`apps.tasksets.selection` describes each rule in its own file.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from apps.runs.algorithms.parts import expand_short_form
from apps.runs.algorithms.section import Positive, Section, Share


class Sequential(Section):
    name: Literal["sequential"] = Field("sequential", description="All tasks in order, repeated.")


class Shuffle(Section):
    name: Literal["shuffle"] = Field(
        "shuffle", description="All tasks in each epoch, in a new seeded order."
    )


class Uniform(Section):
    name: Literal["random"] = Field(
        "random", description="Any task at random, independent of earlier choices."
    )


class PeopleDecide(Section):
    name: Literal["people"] = Field(
        "people", description="Tasks that people ask for first, otherwise shuffled."
    )


class ByDifficulty(Section):
    """Selection by a difficulty scale (apps.tasksets.scales)."""

    scale: str = Field(
        min_length=1,
        max_length=60,
        pattern=r"^[^\x00-\x1f]+$",
        description="A scale of the taskset, or a number in the tasks' meta.",
    )


class Ordered(ByDifficulty):
    higher: Literal["harder", "easier"] = Field("harder", description="What a higher number means.")


class EasyToHard(Ordered):
    name: Literal["easy_to_hard"] = Field(
        "easy_to_hard", description="From the easiest task to the hardest, repeated."
    )


class Curriculum(Ordered):
    name: Literal["curriculum"] = Field(
        "curriculum", description="All tasks at first, then only the hard ones."
    )
    from_step: int = Field(
        24,
        ge=0,
        description="First step that uses only hard tasks (Kimi k1.5: 24 of about 40).",
    )
    hard_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of the tasks that count as hard, from the hardest down.",
    )


class Pool(Section):
    max_value: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Highest number in this band; empty for the last band.",
    )
    share: int = Field(
        1,
        ge=0,
        le=100,
        description="Share of the sampled tasks relative to the other bands. 0 samples none.",
    )


class Pools(ByDifficulty):
    name: Literal["pools"] = Field(
        "pools", description="Bands of difficulty, each with its share of the sampled tasks."
    )
    pools: tuple[Pool, ...] = Field(
        min_length=2, max_length=20, description="The bands, from the lowest number up."
    )

    @model_validator(mode="after")
    def _rises(self) -> "Pools":
        ends = [pool.max_value for pool in self.pools[:-1] if pool.max_value is not None]
        if len(ends) < len(self.pools) - 1 or self.pools[-1].max_value is not None:
            raise ValueError(
                "every pool but the last needs `max_value`; the last takes everything above"
            )
        if ends != sorted(set(ends)):
            raise ValueError("`max_value` must increase from pool to pool")
        if not any(pool.share for pool in self.pools):
            raise ValueError("at least one pool needs a share above 0")
        return self

    @property
    def ends(self) -> list[float]:
        """Return the highest number in each band but the last, which has no end."""
        return [pool.max_value for pool in self.pools if pool.max_value is not None]


class Part(Section):
    domain: str = Field(
        max_length=60,
        pattern=r"^[^\x00-\x1f]*$",
        description="Domain of the tasks; empty: tasks without a domain.",
    )
    share: int = Field(
        1, ge=0, le=100, description="Share of the sampled tasks relative to the other domains."
    )


class Mixture(Section):
    name: Literal["mixture"] = Field(
        "mixture",
        description="Domains with their shares of the sampled tasks; shuffled within each.",
    )
    parts: tuple[Part, ...] = Field(
        min_length=1,
        max_length=50,
        description="Domains and their shares. Tasks of other domains are not sampled.",
    )

    @model_validator(mode="after")
    def _shares(self) -> "Mixture":
        if len({part.domain for part in self.parts}) < len(self.parts):
            raise ValueError("two parts have the same domain")
        if not any(part.share for part in self.parts):
            raise ValueError("at least one part needs a share above 0")
        return self


class BySuccess(Section):
    """Selection by the recorded success of each task in the run (apps.rollouts.task_stats)."""


Rate = Literal["recent", "all"]


class Prioritized(BySuccess):
    name: Literal["prioritized"] = Field(
        "prioritized", description="Tasks with lower success rates are more likely."
    )
    floor: float = Field(
        0.05,
        ge=0.001,
        le=1,
        description="Weight of a solved task; a task that never succeeds has weight 1.",
    )
    prior: Share = Field(0.5, description="Success rate assumed for a task without attempts.")
    rate: Rate = Field(
        "recent",
        description=(
            "`all` weights all attempts equally; `recent` weights older ones less, because the "
            "policy has changed."
        ),
    )


class Bots(BySuccess):
    name: Literal["bots"] = Field(
        "bots", description="Tasks whose estimated success rate is nearest to a target (BOTS)."
    )
    target: Share = Field(
        0.5,
        description="Target success rate; at 0.5 there is most to learn.",
    )
    choose: Literal["thompson", "mean", "softmax"] = Field(
        "thompson",
        description=(
            "Task nearest to the target by a sample from each estimate (thompson), by its mean "
            "(mean), or at random weighted by nearness (softmax)."
        ),
    )
    tau: Positive = Field(
        0.1, le=100, description="Temperature of `softmax`: lower values stay nearer to the target."
    )
    forgetting: Share = Field(0.2, description="How much each step discounts earlier results, λ.")
    counts_as: float = Field(
        16,
        ge=1,
        le=10_000,
        description="Number of rollouts that a group's success rate counts as, m.",
    )


Selection = Annotated[
    Sequential
    | Shuffle
    | Uniform
    | EasyToHard
    | Curriculum
    | Pools
    | Mixture
    | Prioritized
    | Bots
    | PeopleDecide,
    Field(discriminator="name"),
    BeforeValidator(expand_short_form),
]
