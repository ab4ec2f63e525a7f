"""Order in which a run's steps read the buffer, and which groups they take again."""

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from apps.runs.algorithms.parts import expand_short_form
from apps.runs.algorithms.section import Section

Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]


class Fifo(Section):
    name: Literal["fifo"] = Field(
        "fifo", description="Groups in the order in which they were sampled."
    )


class Freshest(Section):
    name: Literal["freshest"] = Field(
        "freshest",
        description="Groups from the newest weights first; older groups may become too stale.",
    )


class Priority(Section):
    name: Literal["priority"] = Field(
        "priority",
        description=(
            "Groups with the highest people · (1 if a person rated it) + spread · σ(rewards) − age "
            "· (versions)."
        ),
    )
    people: Weight = Field(
        1.0, description="Bonus for a group if a person rated one of its rollouts."
    )
    spread: Weight = Field(
        1.0, description="Weight of the standard deviation of the group's rewards."
    )
    age: Weight = Field(
        0.1,
        description=(
            "Penalty for each version between the weights that sampled the group and the trainer's."
        ),
    )


class RewardVariance(Section):
    name: Literal["reward_variance"] = Field(
        "reward_variance", description="Groups with the highest variance of rewards."
    )


class Rarity(Section):
    name: Literal["rarity"] = Field(
        "rarity", description="Groups of the domain or task that steps have used least."
    )
    count_by: Literal["domain", "task"] = Field(
        "domain", description="Whether to count by the task's domain or by the task."
    )
    window: int = Field(
        100, ge=1, le=10_000, description="Number of newest steps whose groups are counted."
    )


class HumanFirst(Section):
    name: Literal["human_first"] = Field(
        "human_first", description="Groups first whose rewards include a person's rating."
    )


class Weighted(Section):
    name: Literal["weighted"] = Field(
        "weighted",
        description=(
            "At random, in proportion to (people · (1 if a person rated it) + spread · σ + 0.01) · "
            "exp(−age · versions)."
        ),
    )
    people: Weight = Field(
        1.0, description="What a person's rating of one of its rollouts adds to the group's weight."
    )
    spread: Weight = Field(
        1.0, description="Weight of the standard deviation of the group's rewards."
    )
    age: Weight = Field(
        0.1,
        description=(
            "How fast the weight decays with each version between the weights that sampled the "
            "group and the trainer's."
        ),
    )


Order = Annotated[
    Fifo | Freshest | Priority | RewardVariance | Rarity | HumanFirst | Weighted,
    Field(discriminator="name"),
    BeforeValidator(expand_short_form),
]


class NoReplay(Section):
    name: Literal["none"] = Field("none", description="Each group is used once.")

    @property
    def max_uses(self) -> int:
        return 1

    def max_reused(self, groups: int) -> int:
        """Return how many of a step's groups may be taken again: none."""
        return 0


class Again(Section):
    """Rule by which steps reuse trained groups, as long as max_staleness allows."""

    share: float = Field(
        0.25,
        gt=0,
        le=0.9,
        description=(
            "Maximum share of a step's groups that may be reused; new groups fill the rest."
        ),
    )
    max_uses: int = Field(
        3,
        ge=2,
        le=100,
        description="Maximum number of steps that may use a group, including the first.",
    )
    cool_down: int = Field(
        0, ge=0, le=1000, description="Minimum number of steps between two uses of a group."
    )

    def max_reused(self, groups: int) -> int:
        """Return how many of a step's groups may be taken again: the share, rounded down."""
        return math.floor(round(self.share * groups, 9))


class UniformReplay(Again):
    name: Literal["uniform"] = Field(
        "uniform", description="Any trained group, with equal probability."
    )


class PrioritizedReplay(Again):
    name: Literal["prioritized"] = Field(
        "prioritized",
        description="Groups with larger advantages at their last use are more likely.",
    )
    alpha: float = Field(
        1.0,
        ge=0,
        le=10,
        description="Exponent of the mean |advantage| in a group's weight; 0 is uniform.",
    )


class LinearDecay(Again):
    name: Literal["linear_decay"] = Field(
        "linear_decay",
        description="Groups with the highest version − decay · uses; no limit on uses.",
    )
    decay: Weight = Field(2.0, description="Number of versions that one use counts as.")
    max_uses: int = Field(
        10_000,
        ge=2,
        le=10_000,
        description="Maximum number of steps that may use a group, including the first.",
    )


class DecayWithLimit(Again):
    name: Literal["decay_with_limit"] = Field(
        "decay_with_limit",
        description=(
            "Groups with the highest version − decay · uses + N(0, sigma²), up to the maximum "
            "number of uses."
        ),
    )
    decay: Weight = Field(2.0, description="Number of versions that one use counts as.")
    sigma: Weight = Field(
        0.0, description="Standard deviation of the noise that breaks ties, in versions."
    )


ExperienceReplay = Annotated[
    NoReplay | UniformReplay | PrioritizedReplay | LinearDecay | DecayWithLimit,
    Field(discriminator="name"),
    BeforeValidator(expand_short_form),
]


class Reading(Section):
    order: Order = Field(
        Fifo(), description="Which of the groups that are ready a step uses first."
    )
    replay: ExperienceReplay = Field(NoReplay(), description="Which trained groups a step reuses.")
