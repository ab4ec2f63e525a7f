"""A run with thousands of waiting items and a history, written by SQL statements."""

import uuid

from django.db import connection

from apps.feedback.item_opening import open_items
from apps.rollouts.models import Group
from apps.runs.models import Run
from bench.rating_stage import COPY_GROUP

PER_GROUP = 2  # rollouts of a group, as the cast's runs have them
# Tables that grow with what is asked and said: nothing about a claim or a decision may read them
# from end to end.
BIG = {
    "rollouts_group",
    "rollouts_rollout",
    "feedback_item",
    "feedback_slot",
    "feedback_rating",
    "feedback_ratingreward",
    "feedback_skip",
    "rewards_reward",
}


def many_items(run: Run, group: Group, size: int) -> None:
    """Create about `size` waiting items in the run, like those of its one group."""
    Group.objects.filter(pk=group.pk).update(state=Group.State.WAITING)
    if not group.items.exists():
        open_items([group])
    values = {
        "run": run.pk,
        "groups": size // PER_GROUP,
        "tasks": list(run.taskset.tasks.values_list("pk", flat=True)),
    }
    with connection.cursor() as cursor:
        for statement in COPY_GROUP:
            cursor.execute(statement, values)


def a_past(run: Run, rater: int, size: int) -> None:
    """Create `size` earlier ratings by this person on the live page, and as many skipped items in
    the queue.
    """
    values = {"run": run.pk, "rater": rater, "size": size, "uuid": uuid.uuid4()}
    with connection.cursor() as cursor:
        for statement in PAST:
            cursor.execute(statement, values)


PAST = (
    # In an hour: what is counted since midnight is all of it, though midnight come meanwhile.
    """INSERT INTO feedback_rating (rollout_id, run_id, rater_id, form, answer, critique, shown,
        client_uuid, is_current,
           is_withdrawn, is_late, seconds, changes, at)
       SELECT id, run_id, %(rater)s, 'stars', '{"stars": 3}', '', ARRAY[id], gen_random_uuid(),
           true, false, false, 5, 0,
           now() + interval '1 hour'
       FROM rollouts_rollout WHERE run_id = %(run)s ORDER BY id DESC LIMIT %(size)s""",
    """INSERT INTO rewards_reward (rollout_id, source, scorer, value, reason, details, by_id,
        is_current, at)
       SELECT rollout_id, 'human', 'stars', 0.5, '', '{}', rater_id, true, now()
           FROM feedback_rating WHERE run_id = %(run)s""",
    """INSERT INTO feedback_ratingreward (rating_id, reward_id)
       SELECT t.id, w.id FROM feedback_rating t JOIN rewards_reward w ON w.rollout_id = t.rollout_id
           WHERE t.run_id = %(run)s""",
    # Such stars fill the reply's own slot, so it is offered to nobody any more.
    """UPDATE feedback_slot s SET state = 'done', rater_id = %(rater)s
        FROM feedback_item i, feedback_rating t
       WHERE s.run_id = %(run)s AND i.id = s.item_id AND s.place = 0 AND t.rollout_id = i.members[1]
           AND t.rater_id = %(rater)s""",
    """INSERT INTO feedback_skip (item_id, rater_id, reason)
       SELECT id, %(rater)s, '' FROM feedback_item
           WHERE run_id = %(run)s ORDER BY id DESC LIMIT %(size)s""",
)
