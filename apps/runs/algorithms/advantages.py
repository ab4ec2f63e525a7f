"""The options of each advantage. What they do is written at the function of the same name in `apps.pipelines.advantages`.

`fewest` is how many rollouts of a group must have a reward; `over_batch` says that a number depends on the whole update,
so it is known only when the update's batch is fixed.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from apps.runs.algorithms.section import Number, Positive, Section, Share

Threshold = Annotated[
    float | None,
    Field(ge=0, allow_inf_nan=False, description="A group whose rewards spread no wider is dropped; empty drops none."),
]


class AdvantageSection(Section):
    fewest: ClassVar[int] = 2

    @property
    def over_batch(self) -> bool:
        return False


class Scaled(AdvantageSection):
    scale: Literal["group", "batch", "none"] = Field(
        "group", description="Divide by the standard deviation of the group, of the whole update, or not at all (Dr. GRPO)."
    )
    std_threshold: Threshold = None

    @property
    def over_batch(self) -> bool:
        return self.scale == "batch"


class GRPO(Scaled):
    name: Literal["grpo"] = Field("grpo", description="Standard score within the group.")


class Ranking(Scaled):
    name: Literal["ranking"] = Field("ranking", description="Standard score of the places in the group; only the order counts.")


class StepWiseGRPO(Scaled):
    name: Literal["step_wise_grpo"] = Field("step_wise_grpo", description="GRPO's score for every turn of the rollout.")
    step_norm: bool = Field(False, description="Divide by the rollout's number of turns.")


class GiGPO(AdvantageSection):
    name: Literal["gigpo"] = Field("gigpo", description="The episode's score, and the turn's among turns from the same state.")
    omega: Number = Field(1.0, ge=0, le=1000, description="Weight of the turn's score.")
    gamma: Share = Field(1.0, description="Discount of the reward from turn to turn.")
    scale: Literal["std", "none"] = Field("none", description="Divide both scores by their standard deviation, or not.")

    @property
    def over_batch(self) -> bool:
        return True


class GDPO(AdvantageSection):
    name: Literal["gdpo"] = Field("gdpo", description="Each scorer's reward is normalised by itself, then they are summed.")
    whiten: bool = Field(True, description="Normalise the sums over the whole update.")

    @property
    def over_batch(self) -> bool:
        return self.whiten


class RLOO(AdvantageSection):
    name: Literal["rloo"] = Field("rloo", description="The reward minus the mean of the others.")


class OPMD(AdvantageSection):
    name: Literal["opmd"] = Field("opmd", description="The reward minus the group's value.")
    baseline: Literal["mean", "logavgexp"] = Field("mean", description="How the group's value is estimated.")
    tau: Positive = Field(1.0, le=1e6, description="Temperature of the value `logavgexp`.")


class AsymRE(AdvantageSection):
    name: Literal["asymre"] = Field("asymre", description="The reward minus a shifted mean.")
    baseline_shift: Number = Field(-0.1, ge=-1e6, le=1e6, description="Added to the mean; below 0, good samples weigh more.")


class REC(AdvantageSection):
    name: Literal["rec"] = Field("rec", description="The reward minus the mean, with cures as options.")
    std_normalize: bool = Field(False, description="Divide by the group's standard deviation.")
    drop: Literal["balance"] | None = Field(None, description="balance leaves out bad samples until there are as many good ones.")


class Alone(AdvantageSection):
    """One that needs no group to compare with."""

    fewest: ClassVar[int] = 1


class Reinforce(Alone):
    name: Literal["reinforce"] = Field("reinforce", description="The reward itself.")


class ReinforcePlusPlus(Alone):
    name: Literal["reinforce_plus_plus"] = Field(
        "reinforce_plus_plus", description="Returns whitened over all tokens of the update."
    )
    baseline: Literal["none", "group"] = Field("none", description="What goes off the reward first: nothing, or the group's mean.")
    gamma: Share = Field(1.0, description="Discount of the reward from token to token.")

    @property
    def over_batch(self) -> bool:
        return True


class GAE(Alone):
    name: Literal["gae"] = Field(
        "gae", description="Generalised advantage estimation from the reward at the last token, no critic."
    )
    gamma: Share = Field(1.0, description="Discount of the reward from token to token.")
    lam: Share = Field(1.0, description="How far a reward reaches back, λ.")
    whiten: bool = Field(True, description="Normalise over all tokens of the update.")

    @property
    def over_batch(self) -> bool:
        return True


class Best(Alone):
    name: Literal["best"] = Field("best", description="The best of the group are learned from as they are, the others not at all.")
    keep: int = Field(1, ge=1, le=1024, description="How many of a group.")
    at_least: float | None = Field(None, allow_inf_nan=False, description="Only with such a reward or more; empty: any.")


class TowardsTeacher(Alone):
    name: Literal["towards_teacher"] = Field("towards_teacher", description="How much more likely the teacher finds the token.")
    coefficient: Positive = Field(1.0, le=1000, description="Its weight.")


class JensenShannon(Alone):
    name: Literal["jensen_shannon"] = Field("jensen_shannon", description="Distance to a mixture of teacher and policy.")
    weight: Share = Field(0.5, description="The teacher's share of the mixture.")
    coefficient: Positive = Field(1.0, le=1000, description="Its weight.")
    temperature: Positive = Field(1.0, le=1000, description="Both logprobs are divided by it.")


class NoAdvantage(Alone):
    name: Literal["none"] = Field("none", description="Nothing is compared: demonstrations and preferences say what is good.")


Advantage = Annotated[
    GRPO | Ranking | StepWiseGRPO | GiGPO | GDPO | RLOO | OPMD | AsymRE | REC | Reinforce | ReinforcePlusPlus | GAE | Best
    | TowardsTeacher | JensenShannon | NoAdvantage,
    Field(discriminator="name"),
]  # fmt: skip
