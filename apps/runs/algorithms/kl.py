"""What keeps the policy near a reference model, and what keeps it undecided."""

from typing import Literal

from pydantic import Field, model_validator

from apps.runs.algorithms.section import NotNegative, Positive, Section


class KL(Section):
    estimator: Literal["none", "k1", "k2", "k3", "low_var", "abs", "corrected_k3"] = Field(
        "none", description="How the divergence of a sampled token is estimated; none keeps no reference model."
    )
    coefficient: NotNegative = Field(0.0, le=1000, description="Its weight; where a target is set, the weight to start from.")
    where: Literal["loss", "reward"] = Field("loss", description="Added to the loss, or charged to the advantage of each token.")
    target: Positive | None = Field(
        None, le=1000, description="The divergence to hold, in nats a token, by adapting the weight; empty keeps the weight fixed."
    )
    horizon: Positive = Field(
        10_000.0, le=1e9, description="Rollouts after which a steady error of 20 % has moved the weight 20 %."
    )

    @model_validator(mode="after")
    def _has_something_to_weigh(self) -> "KL":
        if self.coefficient and self.estimator == "none":
            raise ValueError("kl.coefficient is set without an estimator; choose one with `estimator: k3`, or drop the coefficient")
        if self.target and not self.coefficient:
            raise ValueError("kl.target adapts kl.coefficient by multiplying it, so it must start above 0, such as 0.05")
        return self

    @property
    def needs_reference(self) -> bool:
        return self.estimator != "none"


class Entropy(Section):
    coefficient: NotNegative = Field(0.0, le=1000, description="Weight of the mean entropy of the policy, rewarded.")
