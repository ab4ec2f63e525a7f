"""The parts of an algorithm that are neither advantage nor loss: aggregation, reference model, experts."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from apps.runs.algorithms.losses import SupervisedLoss
from apps.runs.algorithms.section import Section, Share


def named(value: object) -> object:
    """`loss: gspo` stands for `loss: {name: gspo}`."""
    return {"name": value} if isinstance(value, str) else value


Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]


class Reference(Section):
    kind: Literal["none", "base", "version", "average", "policy"] = Field(
        "base",
        description="What the KL measures against: nothing, the run's first weights, a version of them, a slowly moving average, "
        "or another policy.",
    )
    version: int = Field(0, ge=0, description="Which weight version, for kind `version`; 0 is the policy that the run began with.")
    run: str | None = Field(None, description="Slug of the run, of the same project, whose version it is; empty: this run.")
    policy: str | None = Field(
        None, description="Slug of a policy with the same tokens, for kind `policy`; a teacher, for instance."
    )
    decay: float = Field(0.99, ge=0, lt=1, description="Share of the average that stays at each renewal, for kind `average`.")
    every: int = Field(1, ge=1, description="Updates between two renewals of the average.")


class Schedule(Section):
    warmup: int = Field(0, ge=0, description="Updates in which mu rises from 0 to the peak.")
    decay: int = Field(0, ge=0, description="Updates in which it falls to the valley, as half a cosine.")
    peak: Share = Field(0.9, description="The highest mu.")
    valley: Share = Field(0.05, description="Where mu stays.")


class Expert(Section):
    ratio: float = Field(0.0, ge=0, le=0.95, description="Share of an update's rows that experts wrote.")
    mu: Share = Field(0.0, description="Weight of the expert rows' loss; the other rows' is 1 − mu.")
    loss: Annotated[SupervisedLoss, Field(discriminator="name"), BeforeValidator(named)] = Field(
        {"name": "sft"}, validate_default=True, description="How expert rows are learned from."
    )
    aggregation: Literal["seq-mean-token-mean", "token-mean"] = Field(
        "seq-mean-token-mean", description="Every demonstration weighs the same (as MIX is written), or every token does."
    )
    source: Literal["buffer", "same_prompt"] | None = Field(
        None, description="Any demonstration the run holds, or only those of the prompts in the update."
    )
    schedule: Schedule | None = Field(None, description="Lets mu move with the updates, in place of `mu`.")

    @property
    def is_used(self) -> bool:
        return self.ratio > 0
