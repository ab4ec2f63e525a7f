"""KL penalty and entropy bonus: closeness to a reference model, and exploration."""

from typing import Literal

from pydantic import Field, model_validator

from apps.runs.algorithms.section import NotNegative, Positive, Section


class KL(Section):
    estimator: Literal["none", "k1", "k2", "k3", "low_var", "abs", "corrected_k3"] = Field(
        "none",
        description=(
            "How to estimate the divergence from sampled tokens. With none, no reference model is "
            "loaded."
        ),
    )
    coefficient: NotNegative = Field(
        0.0, le=1000, description="Weight of the penalty; with a target, its initial weight."
    )
    where: Literal["loss", "reward"] = Field(
        "loss",
        description=(
            "Add the penalty to the loss, or subtract it from the advantage of each token."
        ),
    )
    target: Positive | None = Field(
        None,
        le=1000,
        description=(
            "Target divergence in nats per token; the weight adapts to hold it. If empty, the "
            "weight is fixed."
        ),
    )
    horizon: Positive = Field(
        10_000.0,
        le=1e9,
        description=(
            "Number of rollouts after which a constant error of 20% has changed the weight by 20%."
        ),
    )

    @model_validator(mode="after")
    def _has_something_to_weigh(self) -> "KL":
        if self.coefficient and self.estimator == "none":
            raise ValueError(
                "kl.coefficient is set without an estimator; choose one with `estimator: k3`, or"
                " drop the coefficient"
            )
        if self.target and not self.coefficient:
            raise ValueError(
                "kl.target adapts kl.coefficient by multiplying it, so it must start above 0, such"
                " as 0.05"
            )
        return self

    @property
    def needs_reference(self) -> bool:
        return self.estimator != "none"


class Entropy(Section):
    coefficient: NotNegative = Field(
        0.0, le=1000, description="Weight of a bonus for the policy's mean entropy."
    )
