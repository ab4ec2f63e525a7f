"""Limit what a rating page claims ahead, so that one page does not hold a whole small group.

A page holds items ready behind the one that it shows, so that the next one appears at once. While
many items wait, nobody notices. Of the few items of one group, others would get none until the
holder has rated them. The claim takes the most urgent items of all runs, so the limit is for each
run: many items of one run don't excuse holding the few of another.
"""

from collections.abc import Sequence

from apps.accounts.models import User
from apps.feedback.claiming import ASKING, RunLimit, asked_by
from apps.feedback.prepared import prepared_cursor

MAX_COUNTED = 10  # open slots; more than this never changes a limit
# A person counts as present so long after a rating. An empty page asks for items every 4 seconds,
# but only ratings and leases are stored.
PRESENT_S = 120
RATINGS_LOOKED_AT = 20

# Of each run that asks this person: the open slots, and those that the page holds ahead. Also
# whether another person rates in any of these runs now. The simulated rater does not count: it does
# not mind waiting.
SPARE = f"""
    WITH asking AS MATERIALIZED ({ASKING})
    SELECT asking.id,
        (SELECT count(*) FROM (
            SELECT 1 FROM feedback_slot s WHERE s.run_id = asking.id AND s.state = 'open'
            LIMIT {MAX_COUNTED}) bounded),
        (SELECT count(*) FROM feedback_slot s WHERE s.id = ANY(%(ahead)s::bigint[])
            AND s.run_id = asking.id AND s.rater_id = %(user)s AND s.state = 'held'),
        EXISTS (
            SELECT 1 FROM feedback_slot o JOIN accounts_user u ON u.id = o.rater_id
            WHERE o.state = 'held' AND o.lease_until > statement_timestamp()
                AND o.run_id IN (SELECT id FROM asking)
                AND o.rater_id <> %(user)s AND NOT u.is_simulated)
        OR EXISTS (
            SELECT 1 FROM asking CROSS JOIN LATERAL (
                SELECT t.rater_id, t.at FROM feedback_rating t WHERE t.run_id = asking.id
                ORDER BY t.id DESC LIMIT {RATINGS_LOOKED_AT}) t
                JOIN accounts_user u ON u.id = t.rater_id
            WHERE t.at > statement_timestamp() - interval '{PRESENT_S} seconds'
                AND t.rater_id <> %(user)s AND NOT u.is_simulated)
    FROM asking"""


def limit_by_run(
    user: User, run: int | None, count: int, ready: Sequence[int]
) -> dict[int, RunLimit] | None:
    """Return how many items of each run this person's page may claim now; None without a limit.

    `ready` are the slots that the page holds, first the one that it shows. A page without any gets
    one in every case. Of each run, it may hold as many ahead as it leaves open for others. A person
    who rates alone may always hold one ahead, so that the next item appears without a wait.
    """
    if count <= 1 and not ready:
        return None
    with prepared_cursor() as cursor:
        cursor.execute(SPARE, {**asked_by(user, run), "ahead": list(ready[1:])})
        rows = cursor.fetchall()
    limits = {}
    for pk, spare, ahead, has_company in rows:
        later_limit = _share(spare, ahead, has_company)
        first_limit = later_limit if ready else 1 + _share(spare - 1, ahead, has_company)
        limits[pk] = RunLimit(first_limit, later_limit)
    return limits


def _share(spare: int, ahead: int, has_company: bool) -> int:
    """Return how many of the spare items a page may claim besides those it holds ahead."""
    shared = max(0, spare + ahead) // 2
    limit = shared if has_company else max(1, shared)
    return max(0, limit - ahead)
