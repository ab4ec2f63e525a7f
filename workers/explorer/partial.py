"""Partial rollouts at an explorer: what is set aside when a slice is over, and how it is gone on with, here or anywhere.

What is stored knows no engine (apps.rollouts.partial). A rollout is stored as soon as its slice is over; its group is left
to whoever claims it once that holds for all that is left of it, so that slices of one group stay in step.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import structlog
from django.utils import timezone

from apps.rollouts.models import Group, shown
from apps.rollouts.partial import Partial, PartialRollout
from apps.rollouts.payload import Tokens
from apps.rollouts.turns import USER
from apps.streaming.chunks import KEPT_S, ChunkWriter
from workers.explorer import weights
from workers.explorer.flight import Flight, Passage
from workers.explorer.speaker import Typist

if TYPE_CHECKING:
    from workers.explorer.seat import Seat

log = structlog.get_logger(__name__)


def store(seat: "Seat") -> None:
    """Store what has been set aside since, and leave the groups of which nothing else is left, in one transaction."""
    aside = [flight for flight in seat.flights.values() if flight.is_set_aside and flight.held_until is None]
    if not aside:
        return
    busy = {flight.claim.group_id for flight in seat.flights.values() if not flight.is_set_aside or flight.held_until is not None}
    free = {flight.claim.group_id for flight in aside} - busy
    fresh = [flight for flight in aside if not flight.is_stored]
    if not fresh and not free:
        return
    weights.acknowledge(seat)
    claims = {flight.claim.group_id: flight.claim for flight in aside}
    ours = Group.set_aside(claims, [_partial(flight) for flight in fresh], free)
    for flight in fresh:
        flight.is_stored = True
    for flight in [flight for flight in aside if flight.claim.group_id in ours & free]:
        del seat.flights[str(flight.rollout_id)]
        seat.left.add(flight.rollout_id)
    seat.abandon(claims.keys() & ({flight.claim.group_id for flight in fresh} | free) - ours)
    if ours & free:
        log.info("groups_set_aside", run=seat.run, groups=sorted(ours & free))


def kept_of(groups: Sequence[Group]) -> dict[int, PartialRollout]:
    """What was set aside of these claimed groups, by rollout; of those that nobody had before there is nothing."""
    taken_again = [group.pk for group in groups if group.fence > 1]
    return PartialRollout.objects.filter(rollout__group__in=taken_again).in_bulk() if taken_again else {}


def begin(seat: "Seat", flight: Flight, group: Group, kept: PartialRollout | None) -> None:
    """The rollout begins, or goes on from what was kept; whoever watches is told, from the start where they saw anything else."""
    seat.left.discard(flight.rollout_id)
    if kept is not None and kept.tokens.prompt_ids != flight.script.prompt_ids:
        # The task's words are other tokens than they were: a library changed meanwhile.
        log.error("partial_rollout_does_not_fit", run=seat.run, rollout=flight.rollout_id)
        kept = None
    if kept is not None:
        _restore(flight, kept)
    if kept is None or not _is_as_watched(flight, kept):
        seat.writer.started(flight.rollout_id, group.pk, group.task.question, seat.version)
        _tell(seat.writer, flight)


# -- what is stored -----------------------------------------------------------------------------------------------------


def _partial(flight: Flight) -> Partial:
    tokens = Tokens(
        flight.script.prompt_ids, tuple(flight.token_ids), tuple(flight.logprobs), tuple(flight.mask), tuple(flight.segments)
    )
    notes = {
        "turns": [_noted(turn) for turn in flight.turns],
        "held_for": flight.held_for,
        "spent_s": flight.clock.spent,
        "rewrites": flight.rewrites,
    }
    return Partial(flight.rollout_id, tokens, notes, flight.slices + 1)


def _noted(turn: Passage) -> dict:
    """What the policy said is in the tokens; of how it reads, that much has been shown (`Typist`)."""
    return {
        "role": turn.role, "first": turn.first, "typed": turn.typed, "text": turn.text if turn.role == USER else "",
        "before": None if turn.before is None else shown(turn.before), "read": [turn.typist.context, turn.typist.shown],
    }  # fmt: skip


def _restore(flight: Flight, kept: PartialRollout) -> None:
    """The flight is where it was when it was set aside, at the beginning of a slice."""
    tokens = kept.tokens
    flight.token_ids, flight.logprobs, flight.mask = list(tokens.completion_ids), list(tokens.logprobs), list(tokens.action_mask)
    flight.segments, flight.slices, flight.held_for = list(tokens.segments), kept.slices, kept.notes["held_for"]
    flight.clock.spent = kept.notes.get("spent_s", 0.0)  # what was set aside before there were time limits has none
    flight.rewrites = kept.notes.get("rewrites", 0)  # older notes have none
    turns = kept.notes["turns"]
    ends = [turn["first"] for turn in turns[1:]] + [len(flight.token_ids)]
    flight.turns = [_passage(flight, turn, end) for turn, end in zip(turns, ends, strict=True)]
    flight.watch_on()
    flight.begin_slice()


def _passage(flight: Flight, turn: dict, end: int) -> Passage:
    typist, text = Typist(flight.speaker), turn["text"]
    if turn["role"] != USER:
        typist.ids, (typist.context, typist.shown) = flight.token_ids[turn["first"] : end], turn["read"]
        text = flight.speaker.text(typist.ids[: typist.shown])
    typed = [(act, first, past) for act, first, past in turn["typed"]]
    return Passage(turn["role"], turn["first"], text, typist, typed, turn["before"])


# -- those who watch ----------------------------------------------------------------------------------------------------


def _is_as_watched(flight: Flight, kept: PartialRollout) -> bool:
    """Whether watchers were told just this: nobody was at it since it was left, and what they can read is still kept.

    Edits are numbered by who tells of them: what was edited is told again.
    """
    is_edited = any(turn.before is not None for turn in flight.turns)
    age_s = (timezone.now() - kept.stored_at).total_seconds()
    return kept.left_fence == flight.claim.fence - 1 and not is_edited and age_s < KEPT_S / 2


def _tell(writer: ChunkWriter, flight: Flight) -> None:
    """All that is here."""
    for number, turn in enumerate(flight.turns):
        said = flight.said_in(number)
        if turn.role == USER:
            writer.turn(flight.rollout_id, turn.first, len(said), turn.text)
            continue
        typist, past = Typist(flight.speaker), turn.first + len(said)
        for first, end, version in _pieces(flight, turn.first, past):
            text = typist.push(tuple(flight.token_ids[first:end]))
            writer.add(flight.rollout_id, first, text, tuple(flight.logprobs[first:end]), version)


def _pieces(flight: Flight, first: int, past: int) -> Iterator[tuple[int, int, int]]:
    """(first, one past the last, version) of the tokens from `first` to `past`, by who sampled them."""
    starts = [first, *(start for start, _ in flight.segments if first < start < past)]
    for start, end in zip(starts, [*starts[1:], past], strict=True):
        if start < end:
            yield start, end, flight.version_at(start)
