"""A rollout as a conversation: its turns, each in parts, with what a person typed told from what the policy said."""

from dataclasses import dataclass, field

from apps.feedback.interventions import TypedSpan, typed_spans
from apps.rollouts.models import Rollout
from apps.rollouts.turns import Turn, turns_of
from apps.tasksets.models import Picture


@dataclass(frozen=True)
class Part:
    """A stretch of one turn's text. `by`: who typed it; "" for the policy's own words and for a user's turn."""

    text: str
    by: str = ""


@dataclass(frozen=True)
class Said:
    """One turn as it is shown. `role`: assistant (the policy) or user. `pictures`: those in it, as parts of a message."""

    role: str
    parts: list[Part]
    pictures: list[dict] = field(default_factory=list)


def transcript_of(rollout: Rollout, spans: list[TypedSpan]) -> list[Said]:
    """The turns of an ended rollout. `spans`: what people typed of it, as `typed_spans` tells."""
    turns, pictures = enumerate(turns_of(rollout)), _pictures(rollout)
    return [
        Said(turn.role, _parts(turn, [span for span in spans if span.turn == number]), _within(turn, pictures))
        for number, turn in turns
    ]


def _pictures(rollout: Rollout) -> list[tuple[int, dict]]:
    """Those that came after the task's own messages: at which token of the completion, and as a part of a message."""
    tokens = rollout.tokens_if_kept
    if tokens is None or not tokens.pictures:
        return []
    asked = len(tokens.prompt_ids)
    later = [(first - asked, name) for name, first, _ in tokens.pictures if first >= asked]
    known = Picture.objects.filter(project=rollout.run.project_id, sha256__in={name for _, name in later})
    parts = {one["sha256"]: one for one in known.values("sha256", "width", "height")}
    return [
        (place, {"type": "image", "picture": name, "width": parts[name]["width"], "height": parts[name]["height"]})
        for place, name in later if name in parts
    ]  # fmt: skip


def _within(turn: Turn, pictures: list[tuple[int, dict]]) -> list[dict]:
    return [part for place, part in pictures if turn.first_token <= place < turn.first_token + turn.tokens]


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
