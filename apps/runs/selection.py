"""By which rule a run's draws choose tasks: one by name. What each does is written at its file in `apps.tasksets.selection`."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from apps.runs.algorithms.parts import named
from apps.runs.algorithms.section import Positive, Section, Share


class Sequential(Section):
    name: Literal["sequential"] = Field("sequential", description="The tasks in their order, over and over.")


class Shuffle(Section):
    name: Literal["shuffle"] = Field("shuffle", description="Each epoch is another seeded shuffle of all tasks.")


class Uniform(Section):
    name: Literal["random"] = Field("random", description="Any task, whatever the draws before took.")


class PeopleDecide(Section):
    name: Literal["people"] = Field("people", description="What people ask for first, and a shuffle between.")


class ByDifficulty(Section):
    """One that goes by a scale of difficulty (apps.tasksets.scales)."""

    by: str = Field(
        min_length=1,
        max_length=60,
        pattern=r"^[^\x00-\x1f]+$",
        description="A scale of the taskset, or a number in its tasks' meta.",
    )


class Ordered(ByDifficulty):
    higher: Literal["harder", "easier"] = Field("harder", description="What a higher number means.")


class EasyToHard(Ordered):
    name: Literal["easy_to_hard"] = Field("easy_to_hard", description="The easiest first, up to the hardest, over and over.")


class Curriculum(Ordered):
    name: Literal["curriculum"] = Field("curriculum", description="All tasks alike, and from an update on the hard ones alone.")
    from_step: int = Field(24, ge=0, description="Groups drawn for earlier updates are of all tasks (Kimi k1.5: 24 of about 40).")
    hard_share: float = Field(0.5, gt=0, le=1, description="Share of the tasks, from the hardest down, that count as hard.")


class Pool(Section):
    up_to: float | None = Field(None, allow_inf_nan=False, description="Its tasks have this number or less; empty in the last.")
    share: int = Field(1, ge=0, le=100, description="Of the draws, beside the other pools'; a pool of 0 is not drawn from.")


class Pools(ByDifficulty):
    name: Literal["pools"] = Field("pools", description="Bands of difficulty that share the draws.")
    pools: tuple[Pool, ...] = Field(min_length=2, max_length=20, description="The bands, from the lowest number up.")

    @model_validator(mode="after")
    def _rises(self) -> "Pools":
        ends = [pool.up_to for pool in self.pools[:-1]]
        if None in ends or self.pools[-1].up_to is not None:
            raise ValueError("every pool but the last says `up_to`; the last takes all that is above")
        if ends != sorted(set(ends)):
            raise ValueError("`up_to` must rise from pool to pool")
        if not any(pool.share for pool in self.pools):
            raise ValueError("one pool at least needs a share above 0")
        return self


class Part(Section):
    domain: str = Field(max_length=60, pattern=r"^[^\x00-\x1f]*$", description="Of its tasks; empty: those without one.")
    share: int = Field(1, ge=0, le=100, description="Of the draws, beside the other parts'.")


class Mixture(Section):
    name: Literal["mixture"] = Field("mixture", description="Domains that share the draws; within each, a shuffle.")
    parts: tuple[Part, ...] = Field(min_length=1, max_length=50, description="Tasks of domains that are not named are not drawn.")

    @model_validator(mode="after")
    def _shares(self) -> "Mixture":
        if len({part.domain for part in self.parts}) < len(self.parts):
            raise ValueError("two parts have one domain")
        if not any(part.share for part in self.parts):
            raise ValueError("one part at least needs a share above 0")
        return self


class BySuccess(Section):
    """One that goes by what was recorded of each task in the run (apps.rollouts.records)."""


Rate = Literal["recent", "all"]


class Prioritized(BySuccess):
    name: Literal["prioritized"] = Field("prioritized", description="The seldomer a task succeeds, the likelier it is drawn.")
    floor: float = Field(0.05, ge=0.001, le=1, description="What a solved task weighs; one that never succeeds weighs 1.")
    prior: Share = Field(0.5, description="The success rate of a task that was not tried yet.")
    rate: Rate = Field("recent", description="Of all attempts alike, or `recent`: older ones fade, as the policy has changed.")


class Bots(BySuccess):
    name: Literal["bots"] = Field("bots", description="Tasks whose believed success rate is nearest to a target (BOTS).")
    target: Share = Field(0.5, description="The success rate that is looked for; at a half there is most to learn from.")
    choose: Literal["thompson", "mean", "softmax"] = Field(
        "thompson",
        description="The nearest by a number drawn from each belief, the nearest by its mean, or by chance and nearness.",
    )
    tau: Positive = Field(0.1, le=100, description="Temperature of `softmax`: the smaller, the nearer to the target.")
    forgetting: Share = Field(0.2, description="How much of a belief fades with each update, λ.")
    counts_as: float = Field(16, ge=1, le=10_000, description="How many rollouts a group's success rate counts as, m.")


Selection = Annotated[
    Sequential | Shuffle | Uniform | EasyToHard | Curriculum | Pools | Mixture | Prioritized | Bots | PeopleDecide,
    Field(discriminator="name"),
    BeforeValidator(named),
]
