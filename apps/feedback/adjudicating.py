"""Adjudication of disputed items: a person who runs the project reads all votes and decides."""

import uuid
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from apps.accounts.locking import lock_ids, lock_one, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.feedback import known_items
from apps.feedback.forms import FORMS, BadAnswer, critique_of
from apps.feedback.group_completion import settle_group
from apps.feedback.models import FLAG, Adjudication, Item, Rating, Slot
from apps.feedback.rewrite_lessons import policy_turns
from apps.feedback.submitting import Refused
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout


@dataclass(frozen=True)
class AdjudicationResult:
    """The result of an adjudication.

    `is_late` means that the group was trained on already, which is not undone; the decision counts
    elsewhere from now on.
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
    """Make this answer the item's decision; with `make_gold` also a gold item of the same rollouts.

    The votes are kept. Nobody else is asked about the item, and its group continues when it waited
    for nothing else. A repeat with the same client uuid is the same decision; a new one replaces
    the earlier. Raises BadAnswer and Refused.
    """
    item = Item.objects.select_related("run__project", "run__topic").get(pk=item_id)
    # The group's row is locked first, as for every decision, so that its votes, this adjudication
    # and its refiner are serialised.
    group = lock_one(Group.objects.filter(pk=item.group_id).select_related("run"))
    known = Adjudication.objects.filter(
        item=item, rating__rater=by, rating__client_uuid=client_uuid
    ).first()
    if known:
        return AdjudicationResult(known, known.rating.is_late)
    answer, words = read_adjudication(item, form, raw, critique)
    rating = _rating(item, group, by, form, answer, words, client_uuid)
    adjudication, _ = Adjudication.objects.update_or_create(item=item, defaults={"rating": rating})
    free = lock_ids(Slot.objects.filter(item=item, state=Slot.State.OPEN), skip_locked=True)
    Slot.objects.filter(pk__in=free).update(state=Slot.State.CLOSED)
    if group.state == Group.State.WAITING:
        settle_group(group)
    item.run.topic.record("dispute_settled", by=str(by))
    AuditEntry.record("dispute settled", item.run.address, by, item.run.project, item=item.pk)
    if make_gold:
        _make_gold(item, form, raw, explanation, by)
    return AdjudicationResult(adjudication, rating.is_late, make_gold)


def read_adjudication(item: Item, form: str, raw: object, critique: object) -> tuple[dict, str]:
    """Return the canonical answer and critique.

    Raises BadAnswer, also for a form that the item does not have.
    """
    if form not in (item.form, FLAG):
        raise BadAnswer({"form": f"must be {item.form} for this item"})
    text: str | None = None
    turns: int | None = None
    if form == "spans":
        text = Rollout.objects.values_list("text", flat=True).get(pk=item.members[0])
    elif form == "turns":
        turns = policy_turns(Rollout.objects.select_related("payload").get(pk=item.members[0]))
    people = item.run.settings.people
    answer = FORMS[form].parse(raw, item.members, people, text=text, turns=turns)
    return answer, critique_of(critique, form)


def _rating(
    item: Item,
    group: Group,
    by: User,
    form: str,
    answer: dict,
    critique: str,
    client_uuid: uuid.UUID,
) -> Rating:
    """Create the decision's rating, which replaces this person's earlier rating of the item."""
    before = Rating.objects.filter(item=item, rater=by, is_current=True).first()
    if before:
        Rating.objects.filter(pk=before.pk).update(is_current=False)
        Reward.objects.filter(rating_reward__rating=before).update(is_current=False)
    word = Rating(
        item=item,
        rollout_id=item.members[0] if len(item.members) == 1 else None,
        run_id=item.run_id,
        rater=by,
        form=form,
        answer=answer,
        critique=critique,
        shown=item.members,
        client_uuid=client_uuid,
        replaces=before,
        is_late=group.state not in Group.HEARING,
    )
    try:
        with transaction.atomic():
            word.save()
    except IntegrityError:
        # Looked up after the conflict only: another request may write it now, about another item.
        raise Refused(
            "used_uuid",
            "This client_uuid was already used for another rating. Use a new one.",
        ) from None
    return word


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
