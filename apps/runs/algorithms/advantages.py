"""The options of each advantage.

What they do is written at the function of the same name in `apps.pipelines.advantages`.

`min_rewards` is how many rollouts of a group must have a reward; `over_batch` says that a number
depends on the whole step, so it is known only when the step's batch is fixed. `compares_late` says
that rollouts are compared with their group only then, thus with those that are learned from.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from apps.runs.algorithms.section import Number, Positive, Section, Share

Threshold = Annotated[
    float | None,
    Field(
        ge=0,
        allow_inf_nan=False,
        description="Drops groups whose rewards spread no wider than this. If empty, drops none.",
    ),
]


class AdvantageSection(Section):
    min_rewards: ClassVar[int] = 2

    @property
    def over_batch(self) -> bool:
        return False

    @property
    def compares_late(self) -> bool:
        return self.over_batch


class Scaled(AdvantageSection):
    scale: Literal["group", "batch", "none"] = Field(
        "group",
        description=(
            "Divide by the standard deviation of the group, of the whole batch, or not at all (Dr."
            " GRPO)."
        ),
    )
    std_threshold: Threshold = None

    @property
    def over_batch(self) -> bool:
        return self.scale == "batch"


class GRPO(Scaled):
    name: Literal["grpo"] = Field(
        "grpo", description="Standard score of the reward within the group."
    )
    rank_penalty: Share = Field(
        0.0,
        description=(
            "Reduces the rewards of likely replies, by the rank of their mean logprob in the "
            "group. 0: no reduction."
        ),
    )

    @property
    def over_batch(self) -> bool:
        """Tell whether the advantage needs the whole batch: logprobs are read when it is fixed."""
        return super().over_batch or self.rank_penalty > 0


class Ranking(Scaled):
    name: Literal["ranking"] = Field(
        "ranking", description="Standard score of the rank in the group; only the order counts."
    )


class StepWiseGRPO(Scaled):
    name: Literal["step_wise_grpo"] = Field(
        "step_wise_grpo", description="GRPO's score, applied to every turn of the rollout."
    )
    step_norm: bool = Field(False, description="Divide by the rollout's number of turns.")


class GiGPO(AdvantageSection):
    name: Literal["gigpo"] = Field(
        "gigpo", description="The episode's score, and the turn's among turns from the same state."
    )
    omega: Number = Field(1.0, ge=0, le=1000, description="Weight of the turn's score.")
    gamma: Share = Field(1.0, description="Discount of the reward from turn to turn.")
    scale: Literal["std", "none"] = Field(
        "none", description="Whether to divide both scores by their standard deviation."
    )

    @property
    def over_batch(self) -> bool:
        return True


class GDPO(AdvantageSection):
    name: Literal["gdpo"] = Field(
        "gdpo", description="Each scorer's reward is normalized separately, then summed."
    )
    whiten: bool = Field(True, description="Normalize the sums over the whole step.")

    @property
    def over_batch(self) -> bool:
        return self.whiten

    @property
    def compares_late(self) -> bool:
        return False


class RLOO(AdvantageSection):
    name: Literal["rloo"] = Field("rloo", description="The reward minus the mean of the others.")


class OPMD(AdvantageSection):
    name: Literal["opmd"] = Field("opmd", description="The reward minus the group's value.")
    baseline: Literal["mean", "logavgexp"] = Field(
        "mean", description="How the group's value is estimated."
    )
    tau: Positive = Field(1.0, le=1e6, description="Temperature of the value `logavgexp`.")


class AsymRE(AdvantageSection):
    name: Literal["asymre"] = Field("asymre", description="The reward minus a shifted mean.")
    baseline_shift: Number = Field(
        -0.1, ge=-1e6, le=1e6, description="Added to the mean; below 0, good samples weigh more."
    )


class REC(AdvantageSection):
    name: Literal["rec"] = Field(
        "rec", description="The reward minus the mean, with optional corrections."
    )
    std_normalize: bool = Field(False, description="Divide by the group's standard deviation.")
    drop: Literal["balance"] | None = Field(
        None, description="balance leaves out bad samples until there are as many good ones."
    )


class Alone(AdvantageSection):
    """Advantage that needs no group to compare with."""

    min_rewards: ClassVar[int] = 1


class Reinforce(Alone):
    name: Literal["reinforce"] = Field("reinforce", description="The reward itself.")


class ReinforcePlusPlus(Alone):
    name: Literal["reinforce_plus_plus"] = Field(
        "reinforce_plus_plus", description="Returns, normalized over all tokens of the step."
    )
    baseline: Literal["none", "group"] = Field(
        "none", description="What to subtract from the reward first: nothing or the group's mean."
    )
    gamma: Share = Field(1.0, description="Discount of the reward from token to token.")

    @property
    def over_batch(self) -> bool:
        return True


class GAE(Alone):
    name: Literal["gae"] = Field(
        "gae",
        description=(
            "Generalized advantage estimation from a reward at the last token, without a critic."
        ),
    )
    gamma: Share = Field(1.0, description="Discount of the reward from token to token.")
    lam: Share = Field(1.0, description="How far back a reward reaches, λ.")
    whiten: bool = Field(True, description="Normalize over all tokens of the step.")

    @property
    def over_batch(self) -> bool:
        return True


class Best(Alone):
    name: Literal["best"] = Field(
        "best",
        description="Only the best of the group count, without a comparison.",
    )
    keep: int = Field(1, ge=1, le=1024, description="Number of best replies per group.")
    min_reward: float | None = Field(
        None, allow_inf_nan=False, description="Minimum reward. If empty, any."
    )


class TowardsTeacher(Alone):
    name: Literal["towards_teacher"] = Field(
        "towards_teacher", description="How much more likely the token is under the teacher."
    )
    coefficient: Positive = Field(1.0, le=1000, description="Weight of the teacher's advantage.")


class JensenShannon(Alone):
    name: Literal["jensen_shannon"] = Field(
        "jensen_shannon", description="Distance to a mixture of the teacher and the policy."
    )
    weight: Share = Field(
        0.5,
        description=(
            "The teacher's share of the mixture. Near 0 as the forward KL, near 1 as the reverse."
        ),
    )
    coefficient: Positive = Field(1.0, le=1000, description="Weight of the teacher's advantage.")
    temperature: Positive = Field(
        1.0, le=1000, description="Temperature that divides both logprobs."
    )


class PluginAdvantage(AdvantageSection):
    name: Literal["plugin"] = Field("plugin", description="Your own advantage, from a plugin.")
    plugin: str = Field(min_length=1, max_length=60, description="Name of the plugin.")
    options: dict[str, JsonValue] = Field({}, description="Options of the plugin.")


class NoAdvantage(Alone):
    name: Literal["none"] = Field(
        "none", description="No advantages: training uses demonstrations or preferences."
    )


Advantage = Annotated[
    GRPO
    | Ranking
    | StepWiseGRPO
    | GiGPO
    | GDPO
    | RLOO
    | OPMD
    | AsymRE
    | REC
    | Reinforce
    | ReinforcePlusPlus
    | GAE
    | Best
    | TowardsTeacher
    | JensenShannon
    | PluginAdvantage
    | NoAdvantage,
    Field(discriminator="name"),
]
