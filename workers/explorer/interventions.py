"""People's interventions in rollouts in flight: stop, edit, type the policy's turn, hold, release.

A refusal gives its reason in words.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from apps.feedback.interventions import Correction
from apps.feedback.models import Intervention
from apps.rollouts.turns import POLICY
from apps.streaming.chunks import ChunkWriter
from workers.explorer.chat_tokenizer import UnencodableText
from workers.explorer.rollout import InFlightRollout

STOPPED = "stopped by a person"
TYPED = "typed by a person"
HOLD_SECONDS = 120.0
# Seconds of one hold, and of all holds of a rollout: its group waits for it.
MAX_HOLD_SECONDS = 300.0


class Refused(Exception):
    """An error for an intervention that cannot be done; the message is for the person who asked."""


class Then(Enum):
    """What the session does with the rollout after an intervention."""

    WAIT = "wait"
    GO_ON = "go on"
    END_TURN = "end the turn, which a person has typed"
    END = "end the rollout"


@dataclass(frozen=True)
class Effect:
    """The effect of an intervention: the policy's text of the turn before it, and what follows.

    `halts`: the engine's request for the rollout is stopped first.
    """

    before: str
    then: Then
    halts: bool


@dataclass(frozen=True)
class Stage:
    """What an intervention needs of the session: the weight version that is served, and viewers."""

    version: int
    writer: ChunkWriter


def perform(stage: Stage, rollout: InFlightRollout, intervention: Intervention) -> Effect:
    """Change the rollout as the person asks. Raises Refused."""
    return ACTS[intervention.kind](stage, rollout, intervention)


# -- interventions


def _stop(stage: Stage, rollout: InFlightRollout, intervention: Intervention) -> Effect:
    if not rollout.token_ids:
        raise Refused("the reply has no text yet")
    rollout.drop_unanswered()
    return Effect(rollout.turn.text, Then.END, halts=True)


def _edit(stage: Stage, rollout: InFlightRollout, intervention: Intervention) -> Effect:
    before = _rewrite(stage, rollout, intervention, ends=False)
    return Effect(before, Then.GO_ON, halts=True)


def _type(stage: Stage, rollout: InFlightRollout, intervention: Intervention) -> Effect:
    before = _rewrite(stage, rollout, intervention, ends=True)
    return Effect(before, Then.END_TURN, halts=True)


def _rewrite(stage: Stage, rollout: InFlightRollout, intervention: Intervention, ends: bool) -> str:
    """Replace the turn's text by the intervention's text, and stream it to viewers.

    Returns the text before.
    """
    number = len(rollout.turns) - 1 if intervention.turn is None else intervention.turn
    if not 0 <= number < len(rollout.turns) or rollout.turns[number].role != POLICY:
        raise Refused("there is no such turn of the policy")
    if rollout.episode_id and number < len(rollout.turns) - 1:
        raise Refused("the environment has already answered that turn")
    turn = rollout.turns[number]
    try:
        edit = rollout.chat_tokenizer.encode_edit(rollout.turn_tokens(number), intervention.text)
    except UnencodableText as why:
        raise Refused(str(why)) from why
    kept_tokens = turn.first + edit.kept
    new = len(edit.token_ids)
    if kept_tokens + new >= rollout.plan.room:
        raise Refused(
            f"the text has {kept_tokens + new} tokens; the limit for the whole reply is "
            f"{rollout.plan.room}, including one to end it"
        )
    before = turn.text
    rollout.rewrite(number, edit, intervention.pk, stage.version)
    if ends:
        rollout.end_turn(intervention.pk, stage.version)
    typed = len(rollout.token_ids) - kept_tokens
    stage.writer.edit(
        rollout.rollout_id,
        number,
        kept_tokens,
        edit.keep,
        edit.text[edit.keep :],
        typed,
        intervention.by.username,
    )
    return before


def _hold(stage: Stage, rollout: InFlightRollout, intervention: Intervention) -> Effect:
    _return_unused(rollout)
    seconds = min(HOLD_SECONDS, MAX_HOLD_SECONDS - rollout.held_for)
    if seconds <= 0:
        raise Refused(f"the reply was held for {MAX_HOLD_SECONDS:g} seconds, which is the limit")
    is_new = rollout.held_until is None
    rollout.held_until = time.monotonic() + seconds
    rollout.held_for = rollout.held_for + seconds
    stage.writer.held(rollout.rollout_id, intervention.by.username, seconds)
    return Effect(rollout.turn.text, Then.WAIT, halts=is_new)


def _free(stage: Stage, rollout: InFlightRollout, intervention: Intervention) -> Effect:
    if rollout.held_until is None:
        raise Refused("nobody holds it")
    _return_unused(rollout)
    stage.writer.freed(rollout.rollout_id)
    return Effect("", Then.GO_ON, halts=False)


def _return_unused(rollout: InFlightRollout) -> None:
    """Count only the seconds for which the rollout was held so far."""
    if rollout.held_until is not None:
        rollout.held_for -= max(0.0, rollout.held_until - time.monotonic())


ON_ITS_MOVE = (Intervention.Kind.EDIT, Intervention.Kind.SEAT, Intervention.Kind.HOLD)
ACTS: dict[str, Callable[[Stage, InFlightRollout, Intervention], Effect]] = {
    Intervention.Kind.STOP: _stop,
    Intervention.Kind.EDIT: _edit,
    Intervention.Kind.SEAT: _type,
    Intervention.Kind.HOLD: _hold,
    Intervention.Kind.FREE: _free,
}


def overdue_holds(rollouts: Iterable[InFlightRollout]) -> list[InFlightRollout]:
    """Return the rollouts whose hold has expired."""
    now = time.monotonic()
    return [
        rollout
        for rollout in rollouts
        if rollout.held_until is not None and rollout.held_until <= now
    ]


# -- lessons


def corrections_in(rollout: InFlightRollout) -> list[Correction]:
    """Return each finished turn in which a person typed, as an answer to everything before it.

    Only the answer to a task of one question is stored for the task; a turn of a dialogue answers
    its own messages.
    """
    corrections = []
    messages = list(rollout.plan.prompt)
    for number, turn in enumerate(rollout.turns):
        token_ids = rollout.turn_tokens(number)
        text = rollout.chat_tokenizer.text(token_ids) if turn.role == POLICY else turn.text
        if turn.typed and token_ids[-1] in rollout.chat_tokenizer.stop_token_ids:
            task = None if rollout.plan.follow_ups else rollout.plan.task_id
            corrections.append(
                Correction(
                    rollout.rollout_id,
                    turn.typed[-1][0],
                    task,
                    list(messages),
                    text,
                    turn.before or "",
                )
            )
        messages.append({"role": turn.role, "content": text})
    return corrections
