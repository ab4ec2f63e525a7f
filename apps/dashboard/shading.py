"""A rollout's tokens as a reader sees them: text, how probable each was, and where the weights changed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.feedback.interventions import TypedSpan
from apps.rollouts.models import Rollout
from apps.rollouts.token_text import texts, vocabulary_of

SHADES = 10
MOST_TOKENS = 4_000


@dataclass(frozen=True)
class Token:
    """One token. `shade`: p0 (improbable) … p9 (nearly certain). `version`: set where another version takes over.

    `by`: the person who typed it; "" for what the policy or the dialogue's user said.
    """

    text: str
    probability: float
    shade: str
    is_masked: bool
    version: int | None
    by: str = ""


@dataclass(frozen=True)
class Shading:
    tokens: list[Token]
    has_text: bool
    left_out: int


def shading_of(rollout: Rollout, typed: Sequence[TypedSpan] = ()) -> Shading:
    """Tokens of a finished rollout, at most MOST_TOKENS; `typed`: which of them people wrote.

    Ids stand for text when the tokenizer is not on this machine.
    """
    arrays = rollout.tokens
    ids = arrays.completion_ids[:MOST_TOKENS]
    vocabulary = vocabulary_of(rollout.run.policy.folder)
    words = texts(vocabulary, ids) if vocabulary else [f"{token} " for token in ids]
    starts = dict(arrays.segments)
    authors = {n: span.act.by.username for span in typed for n in range(span.first_token, span.past_token)}
    tokens = []
    for n, word in enumerate(words):
        chance, is_masked = math.exp(min(0.0, arrays.logprobs[n])), not arrays.action_mask[n]
        tone = "" if is_masked else shade(chance)
        tokens.append(Token(word, chance, tone, is_masked, starts.get(n), authors.get(n, "")))
    return Shading(tokens, vocabulary is not None, len(arrays.completion_ids) - len(ids))


def shade(probability: float) -> str:
    """The class of a token's background: the less probable, the stronger."""
    return f"p{min(SHADES - 1, int(probability * SHADES))}"
