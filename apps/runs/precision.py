"""In how many bits a run's engine and its trainer compute."""

from typing import Literal

from pydantic import Field

from apps.runs.algorithms.section import Section

Choice = Literal["auto", "float32", "bfloat16", "float16"]


class Precision(Section):
    engine: Choice = Field(
        "auto",
        description="What the engine serves weights in. auto: on a GPU bfloat16, float16 where it "
        "has none; on a CPU float32, from 250 million parameters bfloat16 if it is fast there.",
    )
    trainer: Choice = Field(
        "auto",
        description="What the trainer's passes compute in; its weights and AdamW stay float32. "
        "auto as for the engine. float16 is the closest to an engine in float16, and scales its "
        "loss so that small gradients do not vanish.",
    )
