"""How an engine samples the replies of a run."""

from typing import Literal

from pydantic import Field

from apps.runs.algorithms.section import Positive, Section


class Repeats(Section):
    """Stops replies that loop: the newest tokens repeat a short sequence."""

    max_pattern_size: int = Field(
        64, ge=1, le=1024, description="Maximum length of the repeated sequence, in tokens."
    )
    min_count: int = Field(
        8, ge=2, le=1000, description="How many times in a row the sequence must occur."
    )
    min_tokens: int = Field(
        64,
        ge=2,
        le=131_072,
        description=(
            "Minimum length of the whole loop, in tokens; shorter sequences must occur more often."
        ),
    )


class Sampling(Section):
    max_tokens: int = Field(
        64,
        ge=1,
        le=131_072,
        description="Maximum length of a reply, in tokens. Longer replies are cut there.",
    )
    max_prompt_tokens: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description=(
            "Maximum length of a prompt, in tokens. Tasks with longer prompts are left out, and "
            "engines reserve room for this and max_tokens. If empty, the policy's context is the "
            "limit."
        ),
    )
    temperature: Positive = Field(
        1.0,
        le=5,
        description=(
            "Softmax temperature. Top-p and top-k stay off, because they bias the probability "
            "ratio."
        ),
    )
    repeats: Repeats | None = Field(
        None,
        description="Stops replies that loop. If empty, they go on until they end.",
    )
    slice_tokens: int | None = Field(
        None,
        ge=8,
        le=131_072,
        description=(
            "Number of tokens after which an unfinished reply is saved in the database. Any "
            "explorer can continue it, and saved replies come first. If empty, replies are "
            "generated in one piece."
        ),
    )
    time_s: float | None = Field(
        None,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description=(
            "Maximum time to generate a reply, in seconds, all slices together. After it, the "
            "reply ends and keeps its text. If empty, there is no limit."
        ),
    )
    older_segments: Literal["learn", "leave_out"] = Field(
        "learn",
        description=(
            "Whether to train on the first part of a reply if newer weights generated the rest."
        ),
    )
