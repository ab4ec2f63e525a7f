"""One request to a judge, and what came back."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from apps.rewards.scorers.contract import ScorerOptions


class JudgeOptions(ScorerOptions):
    """What all judges share: who is asked, how, and how often."""

    address: str = Field(min_length=1, max_length=300, description="Of an OpenAI-compatible service, up to and with its /v1.")
    model: str = Field(min_length=1, max_length=200, description="The service's name for the model.")
    votes: int = Field(1, ge=1, le=32, description="How often it is asked the same; the votes' mean counts (self-consistency).")
    temperature: float = Field(0.0, ge=0, le=2, description="Of its words; above 0 where it votes more than once.")
    max_tokens: int = Field(1024, ge=16, le=65_536, description="Of one reply, its reasoning included.")
    timeout_s: float = Field(60.0, gt=0, le=600, description="For one reply; then it is asked again, twice at most.")


@dataclass(frozen=True)
class Ask:
    """`vote` tells apart what is asked more than once: each has a reply of its own, kept by all of this."""

    messages: Sequence[dict[str, str]]
    vote: int = 0


@dataclass(frozen=True)
class Reply:
    """The judge's words; None: none came, and `reason` says why."""

    text: str | None
    reason: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    is_kept: bool = False  # it was asked before, and cost nothing now
