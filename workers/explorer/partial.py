"""Partial rollouts at an explorer: stored when a slice is over, and resumed here or elsewhere.

The stored form is the same for all engines (apps.rollouts.partial). A rollout is stored when its
slice is over. Its group is released after all its unfinished rollouts are stored, so the slices of
one group stay in step.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.utils import timezone

from apps.rollouts.models import Group, storable_output
from apps.rollouts.partial import Partial, PartialRollout
from apps.rollouts.payload import Tokens
from apps.rollouts.turns import USER
from apps.runs.models import Run
from apps.streaming.chunks import KEPT_S, ChunkWriter
from workers.explorer.chat_tokenizer import IncrementalDetokenizer
from workers.explorer.rollout import InFlightRollout, InFlightTurn

log = structlog.get_logger(__name__)


def load_partial_rollouts(groups: Sequence[Group]) -> dict[int, PartialRollout]:
    """Return the stored partial rollouts of these claimed groups, by rollout id.

    Groups claimed for the first time have none.
    """
    taken_again = [group.pk for group in groups if group.fence > 1]
    return (
        PartialRollout.objects.filter(rollout__group__in=taken_again).in_bulk()
        if taken_again
        else {}
    )


@dataclass(frozen=True)
class StoredPartials:
    """What became of rollouts set aside: those released with their groups, and groups (ids) that
    another worker holds by now.
    """

    left: Sequence[InFlightRollout] = ()
    lost: frozenset[int] = frozenset()


class PartialRollouts:
    """The partial rollouts of one run session. `left`: ids of those that were set aside here and
    released.
    """

    def __init__(self, run: Run, writer: ChunkWriter) -> None:
        self.run = run
        self.writer = writer
        self.left: set[int] = set()

    def store(
        self, rollouts: Collection[InFlightRollout], acknowledge: Callable[[], None]
    ) -> StoredPartials:
        """Store the rollouts set aside since, and release groups with nothing else left.

        One transaction. `acknowledge` is called before, if anything is written.
        """
        aside = [
            rollout for rollout in rollouts if rollout.is_set_aside and rollout.held_until is None
        ]
        if not aside:
            return StoredPartials()
        continuing = set(rollouts).difference(aside)
        free = {rollout.claim.pk for rollout in aside} - {
            rollout.claim.pk for rollout in continuing
        }
        fresh = [rollout for rollout in aside if not rollout.is_stored]
        if not fresh and not free:
            return StoredPartials()
        acknowledge()
        claims = {rollout.claim.pk: rollout.claim for rollout in aside}
        ours = Group.set_aside(claims, [_partial(rollout) for rollout in fresh], free)
        for rollout in fresh:
            rollout.is_stored = True
        released = [rollout for rollout in aside if rollout.claim.pk in ours & free]
        self.left |= {rollout.rollout_id for rollout in released}
        if ours & free:
            log.info("groups_set_aside", run=self.run, groups=sorted(ours & free))
        return StoredPartials(
            released, frozenset(({rollout.claim.pk for rollout in fresh} | free) - ours)
        )

    def begin(
        self,
        rollout: InFlightRollout,
        group: Group,
        stored: PartialRollout | None,
        version: int | None,
    ) -> None:
        """Begin the rollout, or resume it from its stored state, and tell viewers.

        `version`: the weight version that is served. Viewers that saw anything else are told from
        the start.
        """
        self.left.discard(rollout.rollout_id)
        if stored is not None and stored.tokens.prompt_ids != rollout.plan.prompt_ids:
            # The prompt has other tokens now: a library has changed meanwhile.
            log.error("partial_rollout_does_not_fit", run=self.run, rollout=rollout.rollout_id)
            stored = None
        if stored is not None:
            _restore(rollout, stored)
        if stored is None or not _is_as_streamed(rollout, stored):
            self.writer.started(rollout.rollout_id, group.pk, group.task.question, version)
            _send_text(self.writer, rollout)


# -- storage


def _partial(rollout: InFlightRollout) -> Partial:
    tokens = Tokens(
        rollout.plan.prompt_ids,
        tuple(rollout.token_ids),
        tuple(rollout.logprobs),
        tuple(rollout.mask),
        tuple(rollout.segments),
    )
    notes = {
        "turns": [_turn_notes(turn) for turn in rollout.turns],
        "held_for": rollout.held_for,
        "spent_s": rollout.clock.spent,
        "rewrites": rollout.rewrites,
    }
    return Partial(rollout.rollout_id, tokens, notes, rollout.slices + 1)


def _turn_notes(turn: InFlightTurn) -> dict[str, Any]:
    """Return a turn as JSON: a user's text, or how far the policy's tokens have been decoded."""
    return {
        "role": turn.role,
        "first": turn.first,
        "typed": turn.typed,
        "text": turn.text if turn.role == USER else "",
        "before": None if turn.before is None else storable_output(turn.before),
        "read": [turn.detokenizer.context, turn.detokenizer.shown],
    }


def _restore(rollout: InFlightRollout, stored: PartialRollout) -> None:
    """Restore the rollout to the state at the beginning of the slice after it was stored."""
    tokens = stored.tokens
    rollout.token_ids, rollout.logprobs, rollout.mask = (
        list(tokens.completion_ids),
        list(tokens.logprobs),
        list(tokens.action_mask),
    )
    rollout.segments, rollout.slices, rollout.held_for = (
        list(tokens.segments),
        stored.slices,
        stored.notes["held_for"],
    )
    # Rollouts stored before there were time limits have none.
    rollout.clock.spent = stored.notes.get("spent_s", 0.0)
    rollout.rewrites = stored.notes.get("rewrites", 0)  # older notes have none
    turns = stored.notes["turns"]
    ends = [turn["first"] for turn in turns[1:]] + [len(rollout.token_ids)]
    rollout.turns = [_turn(rollout, turn, end) for turn, end in zip(turns, ends, strict=True)]
    rollout.watch_on()
    rollout.begin_slice()


def _turn(rollout: InFlightRollout, turn: dict[str, Any], end: int) -> InFlightTurn:
    detokenizer = IncrementalDetokenizer(rollout.chat_tokenizer)
    text = turn["text"]
    if turn["role"] != USER:
        detokenizer.ids, (detokenizer.context, detokenizer.shown) = (
            rollout.token_ids[turn["first"] : end],
            turn["read"],
        )
        text = rollout.chat_tokenizer.text(detokenizer.ids[: detokenizer.shown])
    typed = [(intervention, first, past) for intervention, first, past in turn["typed"]]
    return InFlightTurn(turn["role"], turn["first"], text, detokenizer, typed, turn["before"])


# -- viewers


def _is_as_streamed(rollout: InFlightRollout, stored: PartialRollout) -> bool:
    """Tell whether viewers already have this text: nobody sampled it since, and it is still kept.

    Edits are numbered by the explorer that sends them: an edited text is sent again.
    """
    is_edited = any(turn.before is not None for turn in rollout.turns)
    age_s = (timezone.now() - stored.stored_at).total_seconds()
    return stored.left_fence == rollout.claim.fence - 1 and not is_edited and age_s < KEPT_S / 2


def _send_text(writer: ChunkWriter, rollout: InFlightRollout) -> None:
    """Send the whole text to viewers."""
    for number, turn in enumerate(rollout.turns):
        ids = rollout.turn_tokens(number)
        if turn.role == USER:
            writer.turn(rollout.rollout_id, turn.first, len(ids), turn.text)
            continue
        detokenizer = IncrementalDetokenizer(rollout.chat_tokenizer)
        past = turn.first + len(ids)
        for first, end, version in _pieces(rollout, turn.first, past):
            text = detokenizer.push(tuple(rollout.token_ids[first:end]))
            writer.add(rollout.rollout_id, first, text, tuple(rollout.logprobs[first:end]), version)


def _pieces(rollout: InFlightRollout, first: int, past: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first, one past the last, version) of the tokens from `first` to `past`."""
    starts = [first, *(start for start, _ in rollout.segments if first < start < past)]
    for start, end in zip(starts, [*starts[1:], past], strict=True):
        if start < end:
            version = rollout.version_at(start)
            assert version is not None  # every token belongs to a segment
            yield start, end, version
