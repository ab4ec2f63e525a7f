"""Submit the decision of an item's holder: rating, rewards, slot and group in one transaction.

A decision costs three statements: the slot and its group are locked and read, the rating is
written, the group is passed on. A repeat with the same client uuid returns the same rating.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.accounts.locking import unit_of_work
from apps.accounts.models import User
from apps.feedback import rewrite_lessons
from apps.feedback.claiming import edition, read_json, who_has
from apps.feedback.known_answers import is_told, reveal_known_answer
from apps.feedback.models import ASIDE, STARS, Item, Rating, Slot
from apps.feedback.prepared import prepared_cursor
from apps.feedback.ratings.answers import Refused, UsedUuid, read_item_answer
from apps.feedback.ratings.intake import Decision, comes_late, enter_ratings, finish_group
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.people import People

MAX_TIME_S = 86_400.0


@dataclass(frozen=True)
class Submission:
    """One decision as submitted.

    `replaces` is the client uuid of the person's own decision that it changes.
    """

    client_uuid: uuid.UUID
    fence: int
    version: int
    form: str
    answer: object
    critique: object = ""
    seconds: float | None = None
    first_key_ms: int | None = None
    changes: int = 0
    replaces: uuid.UUID | None = None


@dataclass(frozen=True)
class SubmissionResult:
    """The result of a decision.

    `gold` says whether it met the known answer, if the run tells its raters.
    """

    rating_id: int
    is_late: bool
    is_new: bool
    gold: Mapping[str, object] | None = field(default=None)


@unit_of_work
def submit(user: User, slot_id: int, submission: Submission) -> SubmissionResult:
    """Save a decision.

    Raises Refused (no longer held, stale, decided already, used uuid) and BadAnswer (by field).
    """
    locked = _lock_slot(user, slot_id, submission)
    slot = locked.slot
    if locked.saved_id is None and slot.state == Slot.State.DONE and slot.rater_id == user.pk:
        # Decided while this waited for the lock, perhaps by the same request sent twice.
        locked = _lock_slot(user, slot_id, submission)
        slot = locked.slot
    if locked.saved_id:
        return _existing_result(locked, locked.saved_id)
    item = slot.item
    people = locked.people
    _require_hold(user, locked, submission)
    shown = slot.shown or item.members
    answer, critique = read_item_answer(
        item,
        submission.form,
        submission.answer,
        submission.critique,
        shown,
        people,
        _wrong_times(submission),
    )
    replaced = _replaced(user, locked, submission.form)
    is_late = comes_late(slot.group, slot.is_required)
    decision = Decision(
        form=submission.form,
        answer=answer,
        shown=shown,
        client_uuid=submission.client_uuid,
        item_id=item.pk,
        critique=critique,
        replaces=next(iter(replaced), None),
        makes_rewards=item.purpose not in ASIDE,
        seconds=submission.seconds,
        first_key_ms=submission.first_key_ms,
        changes=submission.changes,
    )
    [rating_id] = enter_ratings(
        user,
        slot.group,
        people,
        [decision],
        is_late=is_late,
        replaced=replaced,
        is_first=not (locked.has_words or replaced),
        slots=[slot.pk],
    )
    if submission.form == "rewrite":
        rewrite_lessons.keep_rewrite(user, slot.run, slot.group, item.members[0], answer["text"])
    if slot.is_required:
        finish_group(slot.group, people)
    return SubmissionResult(
        rating_id, is_late, True, reveal_known_answer(item, answer, slot.shown, people)
    )


# The slot with its item, group and run, locked after the group (as everywhere); and this person's
# earlier ratings and interventions.
LOCK = """
    SELECT s.state, s.rater_id, s.fence, s.shown, s.is_required, s.item_id, s.group_id, s.run_id,
        i.form, i.purpose, i.members, i.version, i.state, i.expected, i.explanation, g.state,
            g.task_id, r.project_id,
        r.config -> 'people', saved.id, saved.item_id, saved.answer, saved.is_late, mine.id,
            mine.client_uuid,
        EXISTS (SELECT 1 FROM rewards_reward w
            WHERE w.rollout_id = ANY(i.members) AND w.by_id = %(user)s
                AND w.scorer = %(form)s AND w.is_current),
        EXISTS (SELECT 1 FROM feedback_intervention v
            WHERE v.rollout_id = ANY(i.members) AND v.by_id = %(user)s
                AND v.kind IN ('edit', 'seat') AND v.state = 'done')
    FROM feedback_slot s JOIN feedback_item i ON i.id = s.item_id
        JOIN rollouts_group g ON g.id = s.group_id
        JOIN runs_run r ON r.id = s.run_id
        LEFT JOIN feedback_rating saved ON saved.rater_id = %(user)s
            AND saved.client_uuid = %(client_uuid)s
        LEFT JOIN feedback_rating mine ON mine.item_id = s.item_id AND mine.rater_id = %(user)s
            AND mine.is_current
    WHERE s.id = %(slot)s AND r.state <> 'deleting' AND (%(everywhere)s OR EXISTS (
        SELECT 1 FROM accounts_membership m
            WHERE m.project_id = r.project_id AND m.user_id = %(user)s))
    FOR NO KEY UPDATE OF g, s"""


@dataclass(frozen=True)
class LockedSlot:
    """A slot with its item, group and run, all locked, and the person's earlier ratings.

    `saved_*` is the rating that was saved with the submission's uuid, `mine_*` the person's rating
    in force. `has_words`: the person has a reward of this form; `has_typed`: the person has
    written a part of the reply.
    """

    slot: Slot
    people: People
    saved_id: int | None
    saved_item: int | None
    saved_answer: Any
    saved_late: bool | None
    mine_id: int | None
    mine_uuid: uuid.UUID | None
    has_words: bool
    has_typed: bool


def _lock_slot(user: User, slot_id: int, submission: Submission) -> LockedSlot:
    """Return the slot with its item, group and run, locked with the group, and any earlier rating.

    Written as one SQL statement, because building it from querysets took longer than everything
    else about a decision.
    """
    parameters: dict[str, int | str | uuid.UUID] = {
        "user": user.pk,
        "everywhere": user.is_superuser,
        "slot": slot_id,
        "form": submission.form,
        "client_uuid": submission.client_uuid,
    }
    with prepared_cursor() as cursor:
        cursor.execute(LOCK, parameters)
        row = cursor.fetchone()
    if row is None:
        raise Refused("gone", "The item doesn’t exist, or you don’t have access.")
    return _slot_from(slot_id, row)


def _slot_from(slot_id: int, row: Sequence[Any]) -> LockedSlot:
    """Build the slot, and what belongs to it, from a row of LOCK."""
    state, rater, fence, shown, is_required, item, group, run, *row = row
    (
        form,
        purpose,
        members,
        version,
        item_state,
        expected,
        explanation,
        group_state,
        task,
        project,
        people,
        *row,
    ) = row
    slot = Slot(
        pk=slot_id,
        state=state,
        rater_id=rater,
        fence=fence,
        shown=shown,
        is_required=is_required,
        item_id=item,
        group_id=group,
        run_id=run,
    )
    slot.item = Item(
        pk=item,
        form=form,
        purpose=purpose,
        members=members,
        version=version,
        state=item_state,
        expected=read_json(expected),
        explanation=explanation,
        run_id=run,
        group_id=group,
    )
    slot.run = Run(pk=run, project_id=project)
    slot.group = Group(pk=group, state=group_state, task_id=task, run=slot.run)
    saved_id, saved_item, answer, saved_late, mine_id, mine_uuid, has_words, has_typed = row
    return LockedSlot(
        slot,
        People.model_validate(read_json(people)),
        saved_id,
        saved_item,
        read_json(answer),
        saved_late,
        mine_id,
        mine_uuid,
        has_words,
        has_typed,
    )


def _existing_result(locked: LockedSlot, saved_id: int) -> SubmissionResult:
    """Return the rating of a repeated uuid. Raises Refused if it was used for something else."""
    slot = locked.slot
    if locked.saved_item != slot.item_id:
        raise UsedUuid
    return SubmissionResult(
        saved_id,
        bool(locked.saved_late),
        False,
        reveal_known_answer(slot.item, locked.saved_answer, slot.shown, locked.people),
    )


def _require_hold(user: User, locked: LockedSlot, submission: Submission) -> None:
    """Check that the person claimed the slot last.

    An expired lease is accepted until somebody else claims the slot.
    """
    slot = locked.slot
    people = locked.people
    if slot.state == Slot.State.DONE and slot.rater_id == user.pk:
        if submission.replaces is None or submission.replaces != locked.mine_uuid:
            raise Refused(
                "decided",
                "You already rated this item, perhaps in another window. That rating is kept.",
            )
        if is_told(slot.item, people):
            raise Refused("told", "You saw the correct rating, so you can’t change yours.")
    elif slot.rater_id != user.pk or slot.fence != submission.fence:
        raise Refused("lease_lost", who_has(slot.pk))
    if slot.item.state == Item.State.CLOSED:
        raise Refused(
            "closed",
            "The run’s owner has retired this item.",
        )
    if submission.version != edition(slot.item, people):
        raise Refused("stale", "This item was changed while you had it open. Your text is kept.")
    if locked.has_typed:
        raise Refused(
            "own_output", "You wrote part of this reply yourself, so another rater rates it."
        )


def _wrong_times(submission: Submission) -> dict[str, str]:
    """Return what is wrong with the measured times and counts, by field."""
    problems = {}
    if submission.seconds is not None and not 0 <= submission.seconds <= MAX_TIME_S:
        problems["seconds"] = f"must be between 0 and {MAX_TIME_S:.0f}"
    if (
        submission.first_key_ms is not None
        and not 0 <= submission.first_key_ms <= MAX_TIME_S * 1000
    ):
        problems["first_key_ms"] = "must be between 0 and a day"
    if not 0 <= submission.changes <= 1_000_000:
        problems["changes"] = "must be between 0 and 1,000,000"
    return problems


def _replaced(user: User, locked: LockedSlot, form: str) -> list[int]:
    """Return the ids of the person's ratings that this decision replaces, the direct one first.

    That is the earlier decision about the item. If the item counts for training, it is also the
    stars that the person gave its rollouts on the live wall, before anybody was asked.
    """
    item = locked.slot.item
    earlier = [locked.mine_id] if locked.mine_id and locked.slot.state == Slot.State.DONE else []
    if form != STARS or item.purpose in ASIDE or not (locked.has_words or earlier):
        return earlier
    loose = Rating.objects.filter(
        rollout__in=item.members, item=None, form=STARS, rater=user, is_current=True
    )
    return [*earlier, *loose.order_by("-pk").values_list("pk", flat=True)]
