"""How a run's updates read the buffer of judged groups: which of those that are ready come first, and which are taken again."""

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from apps.runs.algorithms.parts import named
from apps.runs.algorithms.section import Section

Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]


class Fifo(Section):
    name: Literal["fifo"] = Field("fifo", description="The groups in the order in which they were drawn.")


class Freshest(Section):
    name: Literal["freshest"] = Field("freshest", description="What the newest weights sampled first; older groups may grow stale.")


class Priority(Section):
    name: Literal["priority"] = Field(
        "priority", description="The highest people · (1 if a person judged it) + spread · σ(its rewards) − age · (versions)."
    )
    people: Weight = Field(1.0, description="What a person's word on any of its rollouts is worth.")
    spread: Weight = Field(1.0, description="What the standard deviation of its rewards is worth, for each 1.")
    age: Weight = Field(0.1, description="What each version costs by which the trainer is ahead of what sampled it.")


class RewardVariance(Section):
    name: Literal["reward_variance"] = Field("reward_variance", description="The highest σ² of its rewards.")


class Rarity(Section):
    name: Literal["rarity"] = Field("rarity", description="The domain or task that updates have taken least of.")
    by: Literal["domain", "task"] = Field("domain", description="What is counted: groups of the task's domain, or of the task.")
    window: int = Field(100, ge=1, le=10_000, description="The newest updates whose groups are counted.")


class HumanFirst(Section):
    name: Literal["human_first"] = Field("human_first", description="Groups first in whose rewards a person's word counts.")


class Weighted(Section):
    name: Literal["weighted"] = Field(
        "weighted", description="Drawn by lot, the likelier, the larger (people · (1 if a person judged it) + spread · σ + 0.01) · "
        "exp(−age · versions).",
    )  # fmt: skip
    people: Weight = Field(1.0, description="What a person's word on any of its rollouts adds to a group's weight.")
    spread: Weight = Field(1.0, description="What the standard deviation of its rewards adds to it, for each 1.")
    age: Weight = Field(0.1, description="How fast the weight falls with each version by which the trainer is ahead.")


Order = Annotated[
    Fifo | Freshest | Priority | RewardVariance | Rarity | HumanFirst | Weighted,
    Field(discriminator="name"),
    BeforeValidator(named),
]


class NoReplay(Section):
    name: Literal["none"] = Field("none", description="A group is learned from once.")

    @property
    def max_uses(self) -> int:
        return 1

    def most(self, groups: int) -> int:
        """How many of an update's groups may be taken again: none."""
        return 0


class Again(Section):
    """A rule by which groups that were trained are taken again, as long as max_staleness allows."""

    share: float = Field(0.25, gt=0, le=0.9, description="Most of an update's groups that may be taken again; new ones fill up.")
    max_uses: int = Field(3, ge=2, le=100, description="Updates that may learn from a group in all, the first one included.")
    cool_down: int = Field(0, ge=0, le=1000, description="Updates between one that took a group and the next that may.")

    def most(self, groups: int) -> int:
        """How many of an update's groups may be taken again: the share, rounded down."""
        return math.floor(round(self.share * groups, 9))


class UniformReplay(Again):
    name: Literal["uniform"] = Field("uniform", description="Any of them, each as likely.")


class PrioritizedReplay(Again):
    name: Literal["prioritized"] = Field("prioritized", description="The likelier, the larger the advantages it counted last.")
    alpha: float = Field(1.0, ge=0, le=10, description="Power of the mean |advantage| that is a group's weight; 0 is uniform.")


class LinearDecay(Again):
    name: Literal["linear_decay"] = Field("linear_decay", description="The highest version − decay · uses, at any use.")
    decay: Weight = Field(2.0, description="How many versions newer make up for each use.")
    max_uses: int = Field(10_000, ge=2, le=10_000, description="Updates that may learn from a group in all, the first included.")


class DecayWithLimit(Again):
    name: Literal["decay_with_limit"] = Field(
        "decay_with_limit", description="The highest version − decay · uses + N(0, sigma²), as long as it has uses left."
    )
    decay: Weight = Field(2.0, description="How many versions newer make up for each use.")
    sigma: Weight = Field(0.0, description="Spread of the noise that breaks ties, in versions.")


ExperienceReplay = Annotated[
    NoReplay | UniformReplay | PrioritizedReplay | LinearDecay | DecayWithLimit,
    Field(discriminator="name"),
    BeforeValidator(named),
]


class Reading(Section):
    order: Order = Field(Fifo(), description="Which of the groups that are ready an update takes first.")
    replay: ExperienceReplay = Field(NoReplay(), description="Which groups that were trained already an update takes again.")
