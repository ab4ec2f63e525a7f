"""A rollout's tokens for display: text, probability, and changes of the weight version."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.feedback.interventions import TypedSpan
from apps.rollouts.models import Rollout
from apps.rollouts.token_text import load_vocabulary, texts

SHADES = 10
MAX_TOKENS = 4_000
ROWS = 200  # rows of raw tokens per page


@dataclass(frozen=True)
class Token:
    """One token.

    `shade` is p0 (improbable) … p9 (nearly certain). `version` is set where another version takes
    over. `by` is the person who typed it; "" for tokens of the policy or the dialogue's user.
    """

    text: str
    probability: float
    shade: str
    is_masked: bool
    version: int | None
    by: str = ""


@dataclass(frozen=True)
class Shading:
    """A part of a reply, from its token `first` on, of `count` in all."""

    tokens: list[Token]
    has_text: bool
    first: int
    count: int

    @property
    def left_out(self) -> int:
        return self.count - len(self.tokens)

    @property
    def past(self) -> int:
        return self.first + len(self.tokens)

    @property
    def last(self) -> int:
        return self.past - 1

    @property
    def before(self) -> int | None:
        """Return the first token of the preceding part; None at the beginning of the reply."""
        return max(0, self.first - MAX_TOKENS) if self.first else None

    @property
    def after(self) -> int | None:
        return self.past if self.past < self.count else None

    @property
    def has_masked(self) -> bool:
        return any(token.is_masked and not token.by for token in self.tokens)


def shade_tokens(rollout: Rollout, typed: Sequence[TypedSpan] = (), first: int = 0) -> Shading:
    """Return at most MAX_TOKENS tokens of a finished rollout, from `first` on.

    `typed` tells which of them people wrote. Without the tokenizer on this machine, ids stand for
    text. The first token of a later part has its version set.
    """
    arrays = rollout.tokens
    end = first + MAX_TOKENS
    ids = arrays.completion_ids[first:end]
    vocabulary = load_vocabulary(rollout.run.policy.folder)
    words = texts(vocabulary, ids) if vocabulary else [f"{token} " for token in ids]
    starts = {
        max(first, start): version for start, version in sorted(arrays.segments) if start < end
    }
    authors = {
        n: span.intervention.by.username
        for span in typed
        for n in range(span.first_token, span.past_token)
    }
    tokens = []
    for n, word in enumerate(words, start=first):
        chance = math.exp(min(0.0, arrays.logprobs[n]))
        is_masked = not arrays.action_mask[n]
        tone = "" if is_masked else shade(chance)
        tokens.append(Token(word, chance, tone, is_masked, starts.get(n), authors.get(n, "")))
    return Shading(tokens, vocabulary is not None, first, len(arrays.completion_ids))


@dataclass(frozen=True)
class Segment:
    """A part of the reply that one version sampled; `x` and `width` in percent."""

    version: int
    first: int
    tokens: int
    x: float
    width: float


def list_segments(rollout: Rollout) -> list[Segment]:
    """Return the segments of a finished rollout; empty if one version sampled all tokens."""
    token_count = len(rollout.tokens.completion_ids)
    starts = sorted(
        (first, version) for first, version in rollout.tokens.segments if first < token_count
    )
    if len(starts) < 2:
        return []
    ends = [first for first, _ in starts[1:]] + [token_count]
    return [
        Segment(
            version,
            first,
            end - first,
            round(100 * first / token_count, 2),
            round(100 * (end - first) / token_count, 2),
        )
        for (first, version), end in zip(starts, ends, strict=True)
    ]


@dataclass(frozen=True)
class RawToken:
    place: int
    id: int
    text: str
    logprob: float
    is_masked: bool
    version: int | None


@dataclass(frozen=True)
class Raw:
    """A part of a rollout's arrays.

    `before` and `after` are the first tokens of the neighbouring parts, None at the ends.
    """

    prompt_ids: Sequence[int]
    rows: Sequence[RawToken]
    count: int
    before: int | None
    after: int | None


def read_raw_arrays(rollout: Rollout, first: int) -> Raw:
    """Return the stored arrays of a finished rollout, from this token of its reply on."""
    arrays = rollout.tokens
    end = first + ROWS
    vocabulary = load_vocabulary(rollout.run.policy.folder)
    ids = arrays.completion_ids[first:end]
    words = texts(vocabulary, ids) if vocabulary else [""] * len(ids)
    starts = sorted(arrays.segments)
    rows = []
    for n, (token, word) in enumerate(zip(ids, words, strict=True), start=first):
        version = next((version for start, version in reversed(starts) if start <= n), None)
        rows.append(
            RawToken(n, token, word, arrays.logprobs[n], not arrays.action_mask[n], version)
        )
    count = len(arrays.completion_ids)
    return Raw(
        arrays.prompt_ids,
        rows,
        count,
        max(0, first - ROWS) if first else None,
        end if end < count else None,
    )


def shade(probability: float) -> str:
    """Return the CSS class of a token's background: the less probable, the stronger."""
    return f"p{min(SHADES - 1, int(probability * SHADES))}"
