"""Write ratings and what follows from them. No other module writes a rating.

The caller has locked the group's row, which serialises the ratings of a group and its refiner, and
has checked who may rate. Rows are written in the lock order of docs/operations.md: the group, its
slots and items, then ratings and rewards.
"""

import json
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.models import Q

from apps.accounts.locking import violated_constraint
from apps.accounts.models import User
from apps.feedback.forms import FORMS
from apps.feedback.group_completion import settle_group
from apps.feedback.models import FLAG, Rating
from apps.feedback.prepared import prepared_cursor
from apps.feedback.ratings.answers import UsedUuid
from apps.rewards.models import LATE, Reward
from apps.rollouts.models import Group
from apps.runs.people import People

MAX_REASON_LENGTH = 300
ONE_PER_UUID = "one_rating_per_client_uuid"


@dataclass(frozen=True)
class Decision:
    """An accepted rating: its canonical answer about the rollouts `shown`, in that order.

    `replaces` is the id of the person's earlier rating that it changes or withdraws.
    `makes_rewards` is False for items and decisions that do not count for training by themselves.
    """

    form: str
    answer: dict[str, Any]
    shown: Sequence[int]
    client_uuid: uuid.UUID
    item_id: int | None = None
    critique: str = ""
    replaces: int | None = None
    is_current: bool = True
    is_withdrawn: bool = False
    makes_rewards: bool = True
    seconds: float | None = None
    first_key_ms: int | None = None
    changes: int = 0

    def rewards(self, people: People) -> dict[int, tuple[float | None, str]]:
        """Return the value and reason of each reward that the rating makes, by rollout.

        A flagged rollout has no value. Pairs become rewards only when their group is judged,
        because a pair's two values would be overwritten by the next pair.
        """
        if not self.makes_rewards or self.form == "pairwise":
            return {}
        if self.form == FLAG:
            broken = [self.answer["rollout"]] if "rollout" in self.answer else self.shown
            reason = f"flagged as broken: {self.answer['reason']}"[:MAX_REASON_LENGTH]
            return dict.fromkeys(broken, (None, reason))
        values = FORMS[self.form].values(self.answer, self.shown, people)
        return {
            rollout: (value, self.critique[:MAX_REASON_LENGTH])
            for rollout, value in values.items()
            if value is not None
        }


def comes_late(group: Group, is_required: bool = True) -> bool:
    """Tell whether the group no longer uses a rating: it is stored and shown, not trained on."""
    return is_required and group.state not in Group.HEARING


def enter_ratings(
    rater: User,
    group: Group,
    people: People,
    decisions: Sequence[Decision],
    *,
    is_late: bool,
    replaced: Collection[int] = (),
    is_first: bool = False,
    slots: Collection[int] = (),
) -> list[int]:
    """Write one person's ratings of a locked group, with their rewards; return their ids in order.

    `replaced` are the ids of the person's ratings that are no longer current, with their rewards.
    Rewards that the person gave with the same form about the same rollouts aren't either, which
    `is_first` rules out to save a statement. `slots` are done with these ratings. Raises UsedUuid
    if one of the rater's ratings has one of these uuids; the transaction must then be rolled back.
    """
    if not is_first:
        _supersede(rater, decisions, replaced)
    rewards = [decision.rewards(people) for decision in decisions]
    values: dict[str, str | int | bool | list[int]] = {
        "ratings": json.dumps([_rating_row(n, decision) for n, decision in enumerate(decisions)]),
        "rewards": json.dumps(
            [
                _reward_row(n, decision, rollout, *judged, is_late)
                for n, decision in enumerate(decisions)
                for rollout, judged in rewards[n].items()
            ]
        ),
        "run": group.run_id,
        "rater": rater.pk,
        "is_late": is_late,
        "slots": list(slots),
    }
    return _write(values)


def _write(values: dict[str, str | int | bool | list[int]]) -> list[int]:
    """Write the ratings; return their ids.

    Ratings of other groups are written at the same time, so that only the constraint tells whether
    a uuid is used.
    """
    with prepared_cursor() as cursor:
        try:
            cursor.execute(WRITE, values)
        except IntegrityError as error:
            if violated_constraint(error) != ONE_PER_UUID:
                raise
            raise UsedUuid from None
        return [pk for (pk,) in cursor.fetchall()]


def finish_group(group: Group, people: People) -> None:
    """Pass on the locked group if it waits for people and nobody is asked about it any more."""
    if group.state == Group.State.WAITING:
        settle_group(group, people)


# The ids are drawn first, because they tie each reward to its rating.
WRITE = """
    WITH given AS (
        SELECT nextval(pg_get_serial_sequence('feedback_rating', 'id')) AS id, d.*
        FROM jsonb_to_recordset(%(ratings)s::jsonb) AS d(n int, item bigint, form text,
            answer jsonb, critique text, shown bigint[], client_uuid uuid, replaces bigint,
            is_current bool, is_withdrawn bool, seconds float8, first_key_ms int, changes int)),
    judged AS (
        SELECT nextval(pg_get_serial_sequence('rewards_reward', 'id')) AS id, w.*
        FROM jsonb_to_recordset(%(rewards)s::jsonb) AS w(n int, rollout bigint, form text,
            value float8, reason text, details jsonb, is_current bool)),
    rated AS (
        INSERT INTO feedback_rating (id, item_id, rollout_id, run_id, rater_id, form, answer,
            critique, shown, client_uuid, replaces_id, is_current, is_withdrawn, is_late, seconds,
            first_key_ms, changes, at)
        SELECT id, item, CASE WHEN cardinality(shown) = 1 THEN shown[1] END, %(run)s, %(rater)s,
            form, answer, critique, shown, client_uuid, replaces, is_current, is_withdrawn,
            %(is_late)s, seconds, first_key_ms, changes, statement_timestamp()
        FROM given),
    rewarded AS (
        INSERT INTO rewards_reward (id, rollout_id, source, scorer, value, reason, details, by_id,
            is_current, at)
        SELECT id, rollout, 'human', form, value, reason, details, %(rater)s, is_current,
            statement_timestamp()
        FROM judged),
    tied AS (
        INSERT INTO feedback_ratingreward (rating_id, reward_id)
        SELECT given.id, judged.id FROM judged JOIN given USING (n)),
    done AS (
        UPDATE feedback_slot SET state = 'done', lease_until = NULL, rater_id = %(rater)s
        WHERE id = ANY(%(slots)s::bigint[])),
    decided AS (
        UPDATE feedback_item SET state = 'done'
        WHERE id IN (SELECT item_id FROM feedback_slot WHERE id = ANY(%(slots)s::bigint[]))
            AND purpose NOT IN ('gold', 'attention', 'norming')
            AND NOT EXISTS (
                SELECT 1 FROM feedback_slot o
                WHERE o.item_id = feedback_item.id AND o.id <> ALL(%(slots)s::bigint[])
                    AND o.state IN ('open', 'held')))
    SELECT id FROM given ORDER BY n"""


def _supersede(rater: User, decisions: Sequence[Decision], replaced: Collection[int]) -> None:
    """Mark the person's earlier ratings and rewards that these replace as no longer current."""
    earlier = Q(rating_reward__rating__in=replaced)
    for form in {decision.form for decision in decisions if decision.makes_rewards}:
        rollouts = {pk for decision in decisions if decision.form == form for pk in decision.shown}
        earlier |= Q(scorer=form, rollout__in=rollouts)
    Reward.objects.filter(earlier, by=rater, is_current=True).update(is_current=False)
    Rating.objects.filter(pk__in=replaced).update(is_current=False)


def _rating_row(number: int, decision: Decision) -> dict[str, Any]:
    return {
        "n": number,
        "item": decision.item_id,
        "form": decision.form,
        "answer": decision.answer,
        "critique": decision.critique,
        "shown": list(decision.shown),
        "client_uuid": str(decision.client_uuid),
        "replaces": decision.replaces,
        "is_current": decision.is_current,
        "is_withdrawn": decision.is_withdrawn,
        "seconds": decision.seconds,
        "first_key_ms": decision.first_key_ms,
        "changes": decision.changes,
    }


def _reward_row(
    number: int, decision: Decision, rollout: int, value: float | None, reason: str, is_late: bool
) -> dict[str, Any]:
    return {
        "n": number,
        "rollout": rollout,
        "form": decision.form,
        "value": value,
        "reason": reason,
        "details": {**decision.answer, LATE: True} if is_late else decision.answer,
        "is_current": decision.is_current,
    }
