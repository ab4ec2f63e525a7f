"""Precision in which a run's engine and its trainer compute."""

from typing import Literal

from pydantic import Field

from apps.runs.algorithms.section import Section

Choice = Literal["auto", "float32", "bfloat16", "float16"]
# Parameters from which a CPU computes in bfloat16, if it has instructions for it. Measured on one
# thread with avx512_bf16, from 1.3 to 135 million: an engine's step takes as long in either (148 ms
# for 32 rows at 135 M), a trainer's pass 1.05 to 1.5 times as long in float32 (4.5 s and 3.2 s at
# 135 M), while bfloat16 moves logprobs by 0.05 nats. So float32 is worth its time as far as that.
LARGE_ON_A_CPU = 250_000_000


class Precision(Section):
    engine: Choice = Field(
        "auto",
        description=(
            "Number format of the engine's weights. auto: on a GPU bfloat16, or float16 if the GPU "
            "has no bfloat16; on a CPU float32, or bfloat16 from 250 million parameters if it is "
            "fast there."
        ),
    )
    trainer: Choice = Field(
        "auto",
        description=(
            "Number format of the trainer's passes; its weights and AdamW stay float32. auto "
            "chooses as for the engine. float16 is closest to an engine in float16 and scales the "
            "loss so that small gradients do not vanish."
        ),
    )

    def rounds_apart(self, parameters: int, on_gpu: bool) -> bool:
        """Tell whether the trainer computes in 16 bits and the engine in another precision.

        Their probabilities then differ by more than a step changes them. In three runs of SmolLM2
        with GRPO the reward fell again, in two with the loss `decoupled` it did not
        (docs/learning.md).
        """
        engine = self.engine
        if engine == "auto":
            is_small = parameters < LARGE_ON_A_CPU and not on_gpu
            engine = "float32" if is_small else "bfloat16"
        return self.trainer in ("bfloat16", "float16") and self.trainer != engine
