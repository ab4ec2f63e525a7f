"""A rollout in flight: what has been sampled of it so far, by which weight version."""

from dataclasses import dataclass, field

from apps.rollouts.models import Claim, Outcome
from apps.rollouts.payload import Tokens
from workers.engines.interface import Delta
from workers.explorer.speaker import Typist

FAILED = "error"


@dataclass
class Flight:
    rollout_id: int
    claim: Claim
    prompt_ids: tuple[int, ...]
    typist: Typist
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)

    def take(self, delta: Delta) -> str:
        """Append the engine's news; returns the text it adds. Raises ValueError when tokens are missing between."""
        if delta.offset != len(self.token_ids):
            raise ValueError(
                f"rollout {self.rollout_id}: the engine went on at token {delta.offset}, {len(self.token_ids)} are here"
            )
        if delta.token_ids and (not self.segments or self.segments[-1][1] != delta.version):
            self.segments.append((len(self.token_ids), delta.version))
        self.token_ids += delta.token_ids
        self.logprobs += delta.logprobs
        return self.typist.push(delta.token_ids)

    def outcome(self, stop_reason: str) -> Outcome:
        """How it ended: with its tokens, or failed without any."""
        if stop_reason == FAILED or not self.token_ids:
            return Outcome(self.rollout_id, None, "", f"the engine returned nothing ({stop_reason})")
        mask = (1,) * len(self.token_ids)
        tokens = Tokens(self.prompt_ids, tuple(self.token_ids), tuple(self.logprobs), mask, tuple(self.segments))
        return Outcome(self.rollout_id, tokens, self.typist.speaker.text(self.token_ids), stop_reason)
