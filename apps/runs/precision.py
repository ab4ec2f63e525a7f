"""Precision in which a run's engine and its trainer compute."""

from typing import Literal

from pydantic import Field

from apps.runs.algorithms.section import Section

Choice = Literal["auto", "float32", "bfloat16", "float16"]


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
