"""Optimizer of a run: AdamW, its learning rate, and how the rows of a step are split."""

import math
from typing import Annotated, Literal

from pydantic import Field

from apps.runs.algorithms.section import Positive, Section, Share

# Models with fewer parameters are not language models that others have trained, and learn faster.
SMALL_MODEL = 10_000_000
LARGE_MODEL = 1_000_000_000
LORA_FACTOR = 10  # adapters take rates ten times those of full weights


class Optimizer(Section):
    kind: Literal["adamw", "adamw_8bit"] = Field(
        "adamw",
        description=(
            "adamw keeps its two moments in float32. adamw_8bit keeps them in 8 bits, needs a "
            "quarter of the memory, and requires bitsandbytes on the trainer's machine."
        ),
    )
    learning_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        1e-4, description="Learning rate of AdamW after warm-up."
    )
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant",
        description=(
            "Learning rate after warm-up: constant, or falling to 0 at the last planned step, "
            "along a straight line or half a cosine."
        ),
    )
    warmup_steps: int = Field(
        5,
        ge=0,
        description=(
            "Number of steps of linear warm-up. Without it, Adam's first steps depend only on the "
            "signs of the gradients."
        ),
    )
    warmup_share: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = Field(
        None,
        description=(
            "Warm-up as a share of the planned steps, rounded up. If empty, warmup_steps applies."
        ),
    )
    beta1: Share = Field(
        0.9,
        description=(
            "Decay rate of the mean gradient (β₁). Higher values react more smoothly and more "
            "slowly."
        ),
    )
    beta2: Share = Field(
        0.98,
        description=(
            "Decay rate of the mean squared gradient (β₂), which scales the step size. 0.98 "
            "averages over about 50 steps."
        ),
    )
    weight_decay: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "Share of each weight, times the learning rate, that each step subtracts. Norms and "
            "biases have no decay."
        ),
    )
    max_grad_norm: Positive = Field(
        0.5, description="Maximum norm of the gradient; larger gradients are clipped."
    )
    micro_batch_rows: int | None = Field(
        None,
        ge=1,
        description="Most rows in one forward pass of a process.",
    )
    micro_batch_tokens: int | None = Field(
        None,
        ge=1,
        description=(
            "Most tokens in one forward pass of a process, counting each row at its longest "
            "possible length. If this and the number of rows are empty, a run that samples sizes "
            "its passes by the memory that they need: about 1 GB on a CPU, 16 GB on a GPU, in "
            "whole groups where one fits."
        ),
    )
    gradient_checkpointing: Literal["auto", "always", "never"] = Field(
        "auto",
        description=(
            "Compute layers again in the backward pass instead of keeping what they computed: "
            "less memory, about a third more time. With auto, a GPU does so and a CPU does not."
        ),
    )

    def warmup_within(self, planned_steps: int) -> int:
        """Return how many of the planned steps warm up."""
        if self.warmup_share is None:
            return self.warmup_steps
        # Rounded first: 0.07 × 100 is a little more than 7 in floating point.
        return math.ceil(round(self.warmup_share * planned_steps, 9))


def usual_learning_rate(parameters: int, lora: bool) -> float:
    """Return a learning rate that is usual in reinforcement fine-tuning of a model of this size.

    That of full weights is 1e-6 from a billion parameters on, as in the examples of TRL and verl.
    The rates of smaller models are those at which the examples of this repository learn.
    """
    if parameters < SMALL_MODEL:
        return 2e-4
    full = 1e-5 if parameters < LARGE_MODEL else 1e-6
    return full * LORA_FACTOR if lora else full
