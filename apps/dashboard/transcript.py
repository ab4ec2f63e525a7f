"""A rollout as a conversation: its turns, each in parts, with what a person typed told from what the policy said."""

from dataclasses import dataclass

from apps.feedback.interventions import TypedSpan, typed_spans
from apps.rollouts.models import Rollout
from apps.rollouts.turns import Turn, turns_of


@dataclass(frozen=True)
class Part:
    """A stretch of one turn's text. `by`: who typed it; "" for the policy's own words and for a user's turn."""

    text: str
    by: str = ""


@dataclass(frozen=True)
class Said:
    """One turn as it is shown. `role`: assistant (the policy) or user."""

    role: str
    parts: list[Part]


def transcript_of(rollout: Rollout, spans: list[TypedSpan]) -> list[Said]:
    """The turns of an ended rollout. `spans`: what people typed of it, as `typed_spans` tells."""
    turns = enumerate(turns_of(rollout))
    return [Said(turn.role, _parts(turn, [span for span in spans if span.turn == number])) for number, turn in turns]


def _parts(turn: Turn, spans: list[TypedSpan]) -> list[Part]:
    parts, at = [], 0
    for span in spans:
        first, last = span.start - turn.start, span.end - turn.start
        parts += [Part(turn.text[at:first]), Part(turn.text[first:last], span.act.by.username)]
        at = last
    return [part for part in [*parts, Part(turn.text[at:])] if part.text]


def typed_in(rollout: Rollout) -> list[TypedSpan]:
    """What people typed of it: no query for the many rollouts that the policy said alone."""
    return typed_spans(rollout) if rollout.turns else []
