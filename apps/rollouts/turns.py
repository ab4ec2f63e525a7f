"""The turns of a rollout: the policy's, the users' between them, and text that a person typed.

A rollout of one turn written by the policy alone, as nearly all are, stores nothing here: its text
is the turn. For any other, `Rollout.turns` stores in order: `role`, `start` and `end` (characters
of the text), `first` and `tokens` (of the completion), and `typed`: a list with `intervention` (the
intervention) and its own `start`, `end`, `first` and `tokens`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

POLICY = "assistant"
USER = "user"
BETWEEN_TURNS = "\n\n"


class HasTurns(Protocol):
    """The fields of a rollout that tell its turns."""

    text: str
    turns: list[dict]
    completion_tokens: int


@dataclass(frozen=True)
class TypedSpan:
    """A stretch that a person typed within a policy turn.

    Positions are characters of the rollout's text and tokens of its completion.
    """

    intervention: int
    start: int
    end: int
    first_token: int
    tokens: int


@dataclass(frozen=True)
class Turn:
    """One turn; `start`: its first character in the rollout's text.

    A user's tokens are those of the template around it, too.
    """

    role: str
    text: str
    start: int
    first_token: int
    tokens: int
    typed: tuple[TypedSpan, ...] = ()


def list_turns(rollout: HasTurns) -> list[Turn]:
    """Return the turns of a finished rollout, without the task's own messages."""
    if not rollout.turns:
        return [Turn(POLICY, rollout.text, 0, 0, rollout.completion_tokens)]
    return [
        Turn(
            stored_turn["role"],
            rollout.text[stored_turn["start"] : stored_turn["end"]],
            stored_turn["start"],
            stored_turn["first"],
            stored_turn["tokens"],
            _read_typed_spans(stored_turn),
        )
        for stored_turn in rollout.turns
    ]


def _read_typed_spans(stored_turn: dict) -> tuple[TypedSpan, ...]:
    return tuple(
        TypedSpan(mark["intervention"], mark["start"], mark["end"], mark["first"], mark["tokens"])
        for mark in stored_turn.get("typed", ())
    )


def store_turns(turns: Sequence[Turn]) -> list[dict]:
    """Return turns in the form that `Rollout.turns` stores."""
    return [
        {
            "role": turn.role,
            "start": turn.start,
            "end": turn.start + len(turn.text),
            "first": turn.first_token,
            "tokens": turn.tokens,
            **({"typed": [_kept_mark(mark) for mark in turn.typed]} if turn.typed else {}),
        }
        for turn in turns
    ]


def _kept_mark(mark: TypedSpan) -> dict:
    return {
        "intervention": mark.intervention,
        "start": mark.start,
        "end": mark.end,
        "first": mark.first_token,
        "tokens": mark.tokens,
    }


def said_by_policy(text: str, turns: Sequence[dict]) -> list[str]:
    """Return the texts of the policy's turns, from a rollout's text and its stored `turns`."""
    return [text[turn["start"] : turn["end"]] for turn in turns if turn["role"] == POLICY] or [text]


def all_said_by_policy(text: str, turns: Sequence[dict]) -> str:
    """Return the texts of the policy's turns as one text."""
    return BETWEEN_TURNS.join(said_by_policy(text, turns))


def spoken_by_policy(rollout: HasTurns) -> bool:
    """Tell whether the policy chose any token; a text typed entirely by a person is no sample."""
    turns = [turn for turn in list_turns(rollout) if turn.role == POLICY]
    return sum(turn.tokens - sum(mark.tokens for mark in turn.typed) for turn in turns) > 0


def stretches(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Return the stretches of completion tokens that the policy wrote: (first, one past the last).

    Returns one empty stretch if it wrote none.
    """
    starts = [
        place
        for place, is_policy_token in enumerate(mask)
        if is_policy_token and not (place and mask[place - 1])
    ]
    ends = [
        place + 1
        for place, is_policy_token in enumerate(mask)
        if is_policy_token and not (place + 1 < len(mask) and mask[place + 1])
    ]
    return list(zip(starts, ends, strict=True)) or [(0, 0)]
