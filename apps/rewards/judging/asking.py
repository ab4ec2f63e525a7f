"""Requests to a judge, and its replies."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from apps.rewards.scorers.contract import ScorerOptions


class JudgeOptions(ScorerOptions):
    """Options that all judges share: the model, its sampling, and the number of votes."""

    address: str = Field(
        min_length=1,
        max_length=300,
        description="URL of an OpenAI-compatible service, including /v1.",
    )
    model: str = Field(
        min_length=1, max_length=200, description="Name of the model at the service."
    )
    votes: int = Field(
        1,
        ge=1,
        le=32,
        description="Number of votes per reply; their mean counts (self-consistency).",
    )
    temperature: float = Field(
        0.0, ge=0, le=2, description="Sampling temperature; above 0 for several votes."
    )
    max_tokens: int = Field(
        1024,
        ge=16,
        le=65_536,
        description="Maximum length of a reply, including reasoning, in tokens.",
    )
    timeout_s: float = Field(
        60.0,
        gt=0,
        le=600,
        description=(
            "Time limit for a reply, in seconds; each request is repeated up to two times."
        ),
    )


@dataclass(frozen=True)
class Ask:
    """Request to a judge; `vote` distinguishes repeated requests, each with its own reply."""

    messages: Sequence[dict[str, str]]
    vote: int = 0


@dataclass(frozen=True)
class Reply:
    """Reply of a judge; None if there was none, and `reason` says why."""

    text: str | None
    reason: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    is_cached: bool = False  # it was asked before, and cost nothing now
