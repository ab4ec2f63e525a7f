"""Adjudication of disputed items: a person who runs the project reads all votes and decides."""

import uuid
from dataclasses import dataclass

from apps.accounts.locking import lock_ids, lock_one, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.feedback import known_items
from apps.feedback.forms import BadAnswer
from apps.feedback.models import FLAG, Adjudication, Item, Rating, Slot
from apps.feedback.ratings.answers import read_item_answer
from apps.feedback.ratings.intake import Decision, comes_late, enter_ratings, finish_group
from apps.rollouts.models import Group


@dataclass(frozen=True)
class AdjudicationResult:
    """The result of an adjudication.

    `is_late` means that the group was already trained on. This is not undone; the decision counts
    everywhere else from now on.
    """

    adjudication: Adjudication
    is_late: bool
    is_gold: bool = False


@unit_of_work
def adjudicate(
    item_id: int,
    by: User,
    form: str,
    raw: object,
    client_uuid: uuid.UUID,
    critique: object = "",
    explanation: object = "",
    make_gold: bool = False,
) -> AdjudicationResult:
    """Save this answer as the item's decision; with `make_gold`, also as a gold item.

    The gold item is about the same rollouts. The votes are kept. Nobody else is asked about the
    item, and its group continues if it waited for nothing else. A repeat with the same client uuid
    returns the same decision; a new one replaces the earlier decision. Raises BadAnswer and
    Refused.
    """
    item = Item.objects.select_related("run__project", "run__topic").get(pk=item_id)
    # The group's row is locked first, as for every decision, so that its votes, this adjudication
    # and its refiner are serialised.
    group = lock_one(Group.objects.filter(pk=item.group_id).select_related("run"))
    existing = Adjudication.objects.filter(
        item=item, rating__rater=by, rating__client_uuid=client_uuid
    ).first()
    if existing:
        return AdjudicationResult(existing, existing.rating.is_late)
    people = item.run.settings.people
    answer, words = read_item_answer(item, form, raw, critique, item.members, people)
    is_late = comes_late(group)
    rating = _enter(item, group, by, form, answer, words, client_uuid, is_late)
    adjudication, _ = Adjudication.objects.update_or_create(
        item=item, defaults={"rating_id": rating}
    )
    free = lock_ids(Slot.objects.filter(item=item, state=Slot.State.OPEN), skip_locked=True)
    Slot.objects.filter(pk__in=free).update(state=Slot.State.CLOSED)
    finish_group(group, people)
    item.run.topic.record("dispute_settled", by=str(by))
    AuditEntry.record("dispute settled", item.run.address, by, item.run.project, item=item.pk)
    if make_gold:
        _make_gold(item, form, raw, explanation, by)
    return AdjudicationResult(adjudication, is_late, make_gold)


def _enter(
    item: Item,
    group: Group,
    by: User,
    form: str,
    answer: dict,
    critique: str,
    client_uuid: uuid.UUID,
    is_late: bool,
) -> int:
    """Store the decision, which replaces this person's earlier rating of the item; return its id.

    It makes no reward by itself: the votes and this decision are combined when the group is judged.
    """
    current_ratings = Rating.objects.filter(item=item, rater=by, is_current=True)
    before = current_ratings.values_list("pk", flat=True).first()
    decision = Decision(
        form=form,
        answer=answer,
        shown=item.members,
        client_uuid=client_uuid,
        item_id=item.pk,
        critique=critique,
        replaces=before,
        makes_rewards=False,
    )
    [rating_id] = enter_ratings(
        by,
        group,
        item.run.settings.people,
        [decision],
        is_late=is_late,
        replaced=[before] if before else [],
    )
    return rating_id


def _make_gold(item: Item, form: str, raw: object, explanation: object, by: User) -> None:
    if form == FLAG:
        raise BadAnswer({"gold": "a flag can’t be the correct rating of a gold item"})
    if item.form != item.run.settings.people.form:
        raise BadAnswer(
            {
                "gold": (
                    f"the run asks for {item.run.settings.people.form} now, this item asked for"
                    f" {item.form}"
                )
            }
        )
    known_items.create_known_item(
        item.run,
        known_items.candidates(item.run, item.members),
        Item.Purpose.GOLD,
        raw,
        explanation,
        by,
    )
