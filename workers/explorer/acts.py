"""What people do to rollouts in flight: stop, edit, type the policy's turn, hold, let go on. A refusal says why, in words."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from apps.feedback.interventions import Correction, asked_of, mark_done, refuse
from apps.feedback.models import Intervention
from apps.rollouts.turns import POLICY
from workers.explorer.flight import Flight
from workers.explorer.speaker import Unspellable

if TYPE_CHECKING:
    from workers.explorer.seat import Seat

log = structlog.get_logger(__name__)
STOPPED, TYPED = "stopped by a person", "typed by a person"
HOLD_SECONDS, LONGEST_HOLD_SECONDS = 120.0, 300.0  # at a time, and of one rollout in all: its group waits for it


class Refused(Exception):
    """The act cannot be done; the message is for whoever asked."""


def asked_in(seats: Iterable["Seat"]) -> list[tuple["Seat", Intervention]]:
    """What people have asked of rollouts in flight, in the order of asking: one statement for all."""
    homes = {flight.rollout_id: seat for seat in seats for flight in seat.flights.values()}
    return [(homes[act.rollout_id], act) for act in asked_of(list(homes))] if homes else []


def do(seat: "Seat", act: Intervention) -> None:
    """Do it, or say why not."""
    flight = seat.flights.get(str(act.rollout_id))
    try:
        if flight is None or flight in seat.ended:
            raise Refused("the answer had ended before")
        if act.kind in ON_ITS_MOVE and seat.is_away(flight):
            raise Refused("it is the environment's move: wait for its answer")
        before = ACTS[act.kind](seat, flight, act)
    except Refused as refusal:
        refuse(act, str(refusal))
    else:
        log.info("person_acted", run=seat.run, rollout=act.rollout_id, act=act.kind, by=act.by.username)
        mark_done(act, before)


# -- the acts: each returns what the policy had said of the turn ---------------------------------------------------------


def _stop(seat: "Seat", flight: Flight, act: Intervention) -> str:
    if not flight.token_ids:
        raise Refused("it has not said anything yet")
    flight.drop_unanswered()
    before = flight.turn.text
    seat.halt(flight)
    seat.end(flight, STOPPED)
    mark_done(act, before)  # first: the rollout's end refuses what is left
    seat.record()
    return before


def _edit(seat: "Seat", flight: Flight, act: Intervention) -> str:
    before = _rewrite(seat, flight, act, ends=False)
    seat.go_on([flight])
    return before


def _type(seat: "Seat", flight: Flight, act: Intervention) -> str:
    before = _rewrite(seat, flight, act, ends=True)
    if seat.goes_on_after_turn(flight, TYPED):
        seat.go_on([flight])
    else:
        mark_done(act, before)  # first: the rollout's end refuses what is left
        seat.record()
    return before


def _rewrite(seat: "Seat", flight: Flight, act: Intervention, ends: bool) -> str:
    """The turn is the act's text from now on, and whoever watches sees it."""
    number = len(flight.turns) - 1 if act.turn is None else act.turn
    if not 0 <= number < len(flight.turns) or flight.turns[number].role != POLICY:
        raise Refused("there is no such turn of the policy")
    if flight.episode_id and number < len(flight.turns) - 1:
        raise Refused("the environment has answered that turn already")
    turn = flight.turns[number]
    try:
        spelling = flight.speaker.spelt(flight.said_in(number), act.text)
    except Unspellable as why:
        raise Refused(str(why)) from why
    kept, new = turn.first + spelling.kept, len(spelling.token_ids)
    if kept + new >= flight.script.room:
        raise Refused(f"it takes {kept + new} tokens; the whole answer may have {flight.script.room}, and needs one to end")
    seat.halt(flight)
    before = turn.text
    flight.rewrite(number, spelling, act.pk, seat.version)
    if ends:
        flight.end_turn(act.pk, seat.version)
    typed = len(flight.token_ids) - kept
    seat.writer.edit(flight.rollout_id, number, kept, spelling.keep, spelling.text[spelling.keep :], typed, act.by.username)
    return before


def _hold(seat: "Seat", flight: Flight, act: Intervention) -> str:
    now = time.monotonic()
    _give_back_unused(flight)
    seconds = min(HOLD_SECONDS, LONGEST_HOLD_SECONDS - flight.held_for)
    if seconds <= 0:
        raise Refused(f"it has been held for {LONGEST_HOLD_SECONDS:g} seconds, and no answer may wait longer")
    if flight.held_until is None:
        seat.halt(flight)
    flight.held_until, flight.held_for = now + seconds, flight.held_for + seconds
    seat.writer.held(flight.rollout_id, act.by.username, seconds)
    return flight.turn.text


def _free(seat: "Seat", flight: Flight, act: Intervention) -> str:
    if flight.held_until is None:
        raise Refused("nobody holds it")
    _give_back_unused(flight)
    _release(seat, flight)
    return ""


def _give_back_unused(flight: Flight) -> None:
    if flight.held_until is not None:
        flight.held_for -= max(0.0, flight.held_until - time.monotonic())


def let_go(seat: "Seat") -> None:
    """What has been held long enough goes on."""
    now = time.monotonic()
    for flight in list(seat.flights.values()):
        if flight.held_until is not None and flight.held_until <= now:
            _release(seat, flight)


def _release(seat: "Seat", flight: Flight) -> None:
    seat.writer.freed(flight.rollout_id)
    seat.go_on([flight])


ON_ITS_MOVE = (Intervention.Kind.EDIT, Intervention.Kind.SEAT, Intervention.Kind.HOLD)
ACTS = {
    Intervention.Kind.STOP: _stop,
    Intervention.Kind.EDIT: _edit,
    Intervention.Kind.SEAT: _type,
    Intervention.Kind.HOLD: _hold,
    Intervention.Kind.FREE: _free,
}


# -- what is learned from it ------------------------------------------------------------------------------------------


def corrections_in(flight: Flight) -> list[Correction]:
    """Each turn of it that a person has typed in and that was said to its end, as an answer to all that came before it.

    Only the answer to a task of one question stands for the task; a turn of a dialogue answers its own messages.
    """
    found, said = [], list(flight.script.prompt)
    for number, turn in enumerate(flight.turns):
        token_ids = flight.said_in(number)
        text = flight.speaker.text(token_ids) if turn.role == POLICY else turn.text
        if turn.typed and token_ids[-1] in flight.speaker.stop_token_ids:
            task = None if flight.script.follow_ups else flight.script.task_id
            found.append(Correction(flight.rollout_id, turn.typed[-1][0], task, list(said), text, turn.before or ""))
        said.append({"role": turn.role, "content": text})
    return found
