"""A rollout's tokens as a reader sees them: text, how probable each was, and where the weights changed."""

import math
from dataclasses import dataclass

from apps.rollouts.models import Rollout
from apps.rollouts.token_text import texts, vocabulary_of

SHADES = 10
MOST_TOKENS = 4_000


@dataclass(frozen=True)
class Token:
    """One token. `shade`: p0 (improbable) … p9 (nearly certain). `version`: set where another version takes over."""

    text: str
    probability: float
    shade: str
    is_masked: bool
    version: int | None


@dataclass(frozen=True)
class Shading:
    tokens: list[Token]
    has_text: bool
    left_out: int


def shading_of(rollout: Rollout) -> Shading:
    """Tokens of a finished rollout, at most MOST_TOKENS. Ids stand for text when the tokenizer is not on this machine."""
    arrays = rollout.tokens
    ids = arrays.completion_ids[:MOST_TOKENS]
    vocabulary = vocabulary_of(rollout.run.policy.folder)
    words = texts(vocabulary, ids) if vocabulary else [f"{token} " for token in ids]
    starts = dict(arrays.segments)
    tokens = [
        Token(word, chance := math.exp(min(0.0, arrays.logprobs[n])), shade(chance), not arrays.action_mask[n], starts.get(n))
        for n, word in enumerate(words)
    ]
    return Shading(tokens, vocabulary is not None, len(arrays.completion_ids) - len(ids))


def shade(probability: float) -> str:
    """The class of a token's background: the less probable, the stronger."""
    return f"p{min(SHADES - 1, int(probability * SHADES))}"
