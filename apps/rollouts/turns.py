"""Who said what in a rollout: the policy's turns, the users' turns between them, and what a person typed in the policy's place.

A rollout of one turn that the policy said alone, as nearly all are, keeps nothing here: its text is the turn. Of any other
`Rollout.turns` keeps, in order: `role`, `start` and `end` (characters of the text), `first` and `tokens` (of the completion),
`typed`: `act` (the intervention), `start`, `end`, `first`, `tokens` likewise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apps.rollouts.models import Rollout

POLICY, USER = "assistant", "user"
BETWEEN_TURNS = "\n\n"


@dataclass(frozen=True)
class Typed:
    """What a person typed within a turn of the policy: characters of the rollout's text, tokens of its completion."""

    act: int
    start: int
    end: int
    first_token: int
    tokens: int


@dataclass(frozen=True)
class Turn:
    """One turn; `start`: its first character in the rollout's text. A user's tokens are those of the template around it, too."""

    role: str
    text: str
    start: int
    first_token: int
    tokens: int
    typed: tuple[Typed, ...] = ()


def turns_of(rollout: "Rollout") -> list[Turn]:
    """The turns of a finished rollout, from the policy's first; without the task's own messages."""
    if not rollout.turns:
        return [Turn(POLICY, rollout.text, 0, 0, rollout.completion_tokens)]
    return [
        Turn(kept["role"], rollout.text[kept["start"] : kept["end"]], kept["start"], kept["first"], kept["tokens"], _typed(kept))
        for kept in rollout.turns
    ]


def _typed(kept: dict) -> tuple[Typed, ...]:
    return tuple(Typed(mark["act"], mark["start"], mark["end"], mark["first"], mark["tokens"]) for mark in kept.get("typed", ()))


def kept(turns: Sequence[Turn]) -> list[dict]:
    """Turns as `Rollout.turns` keeps them."""
    return [
        {
            "role": turn.role, "start": turn.start, "end": turn.start + len(turn.text), "first": turn.first_token,
            "tokens": turn.tokens,
            **({"typed": [_kept_mark(mark) for mark in turn.typed]} if turn.typed else {}),
        }
        for turn in turns
    ]  # fmt: skip


def _kept_mark(mark: Typed) -> dict:
    return {"act": mark.act, "start": mark.start, "end": mark.end, "first": mark.first_token, "tokens": mark.tokens}


def said_by_policy(text: str, turns: Sequence[dict]) -> list[str]:
    """The texts of the policy's turns, from a rollout's text and its `turns` as they are kept."""
    return [text[turn["start"] : turn["end"]] for turn in turns if turn["role"] == POLICY] or [text]


def all_said_by_policy(text: str, turns: Sequence[dict]) -> str:
    """The same as one text."""
    return BETWEEN_TURNS.join(said_by_policy(text, turns))


def spoken_by_policy(rollout: "Rollout") -> bool:
    """Whether the policy chose any token of it; what a person typed from the first to the last is no sample of the policy."""
    turns = [turn for turn in turns_of(rollout) if turn.role == POLICY]
    return sum(turn.tokens - sum(mark.tokens for mark in turn.typed) for turn in turns) > 0


def stretches(mask: Sequence[int]) -> list[tuple[int, int]]:
    """The stretches of completion tokens that the policy wrote, (first, one past the last); one empty one if it wrote none."""
    starts = [place for place, here in enumerate(mask) if here and not (place and mask[place - 1])]
    ends = [place + 1 for place, here in enumerate(mask) if here and not (place + 1 < len(mask) and mask[place + 1])]
    return list(zip(starts, ends, strict=True)) or [(0, 0)]
