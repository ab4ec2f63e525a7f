"""A rollout as a conversation: its turns, with typed text marked apart from the policy's."""

from dataclasses import dataclass, field

from apps.feedback.interventions import TypedSpan, typed_spans
from apps.rollouts.models import Rollout
from apps.rollouts.turns import Turn, list_turns
from apps.tasksets.models import Picture


@dataclass(frozen=True)
class Part:
    """A part of one turn's text.

    `by` is who typed it; "" for the policy's own words and for a user's turn.
    """

    text: str
    by: str = ""


@dataclass(frozen=True)
class TranscriptTurn:
    """One turn for display.

    `role` is assistant (the policy) or user. `pictures` are its pictures, as parts of a message.
    """

    role: str
    parts: list[Part]
    pictures: list[dict] = field(default_factory=list)


def build_transcript(rollout: Rollout, spans: list[TypedSpan]) -> list[TranscriptTurn]:
    """Return the turns of an ended rollout; `spans` are those that people typed."""
    turns = enumerate(list_turns(rollout))
    pictures = _pictures(rollout)
    return [
        TranscriptTurn(
            turn.role,
            _parts(turn, [span for span in spans if span.turn == number]),
            _within(turn, pictures),
        )
        for number, turn in turns
    ]


def _pictures(rollout: Rollout) -> list[tuple[int, dict]]:
    """Return the pictures after the task's messages, with their token in the completion."""
    tokens = rollout.tokens_if_kept
    if tokens is None or not tokens.pictures:
        return []
    prompt_length = len(tokens.prompt_ids)
    later = [
        (first - prompt_length, name)
        for name, first, _ in tokens.pictures
        if first >= prompt_length
    ]
    pictures = Picture.objects.filter(
        project=rollout.run.project_id, sha256__in={name for _, name in later}
    )
    parts = {row["sha256"]: row for row in pictures.values("sha256", "width", "height")}
    return [
        (
            place,
            {
                "type": "image",
                "picture": name,
                "width": parts[name]["width"],
                "height": parts[name]["height"],
            },
        )
        for place, name in later
        if name in parts
    ]


def _within(turn: Turn, pictures: list[tuple[int, dict]]) -> list[dict]:
    return [
        part
        for place, part in pictures
        if turn.first_token <= place < turn.first_token + turn.tokens
    ]


def _parts(turn: Turn, spans: list[TypedSpan]) -> list[Part]:
    parts = []
    at = 0
    for span in spans:
        first = span.start - turn.start
        last = span.end - turn.start
        parts += [
            Part(turn.text[at:first]),
            Part(turn.text[first:last], span.intervention.by.username),
        ]
        at = last
    return [part for part in [*parts, Part(turn.text[at:])] if part.text]


def typed_in(rollout: Rollout) -> list[TypedSpan]:
    """Return the spans that people typed; without a query for rollouts without turns."""
    return typed_spans(rollout) if rollout.turns else []
