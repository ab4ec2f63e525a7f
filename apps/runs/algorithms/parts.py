"""The parts of an algorithm that are neither advantage nor loss: aggregation, reference model,
experts.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from apps.runs.algorithms.losses import SupervisedLoss
from apps.runs.algorithms.section import Section, Share


def expand_short_form(value: object) -> object:
    """Expand the short form `loss: gspo` to `loss: {name: gspo}`."""
    return {"name": value} if isinstance(value, str) else value


Aggregation = Literal[
    "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]


class Reference(Section):
    kind: Literal["none", "base", "version", "average", "policy"] = Field(
        "base",
        description=(
            "Reference model of the KL penalty: none, the run's first weights, a weight version, a "
            "moving average, or another policy."
        ),
    )
    version: int = Field(
        0,
        ge=0,
        description=(
            "Weight version, for kind `version`; 0 is the policy that the run started from."
        ),
    )
    run: str | None = Field(
        None,
        description="Slug of a run in the same project that has this version. If empty, this run.",
    )
    policy: str | None = Field(
        None,
        description=(
            "Slug of a policy with the same tokenizer, for kind `policy`; for example a teacher."
        ),
    )
    decay: float = Field(
        0.99,
        ge=0,
        lt=1,
        description="Share of the average kept at each update of it, for kind `average`.",
    )
    every: int = Field(1, ge=1, description="Steps between two updates of the average.")


class Schedule(Section):
    warmup: int = Field(0, ge=0, description="Steps in which mu rises from 0 to the peak.")
    decay: int = Field(
        0, ge=0, description="Steps in which mu falls to the valley, along half a cosine."
    )
    peak: Share = Field(0.9, description="Highest value of mu.")
    valley: Share = Field(0.05, description="Final value of mu.")


class Expert(Section):
    ratio: float = Field(0.0, ge=0, le=0.95, description="Share of expert rows in a step.")
    mu: Share = Field(
        0.0, description="Weight of the expert rows' loss; the other rows have 1 − mu."
    )
    loss: Annotated[
        SupervisedLoss, Field(discriminator="name"), BeforeValidator(expand_short_form)
    ] = Field({"name": "sft"}, validate_default=True, description="Loss for expert rows.")
    aggregation: Literal["seq-mean-token-mean", "token-mean"] = Field(
        "seq-mean-token-mean",
        description="Whether every demonstration has the same weight (as in MIX) or every token.",
    )
    source: Literal["buffer", "same_prompt"] | None = Field(
        None,
        description="Any demonstration of the run, or only those for the prompts in the step.",
    )
    schedule: Schedule | None = Field(
        None, description="Schedule that changes mu during training, in place of `mu`."
    )

    @property
    def is_used(self) -> bool:
        return self.ratio > 0
