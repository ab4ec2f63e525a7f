"""Limit what a rating page claims ahead, so that one page does not hold a whole small group.

A page holds items ready behind the one that it shows, so that the next one appears at once. While
many items wait, nobody notices. Of the few items of one group, others would get none until the
holder has rated them.
"""

from apps.accounts.models import User
from apps.feedback.claiming import ASKING, asked_by
from apps.feedback.prepared import prepared_cursor

MOST_COUNTED = 10  # open slots; more than this never changes a limit
# A person counts as present so long after a rating. An empty page asks for items every 4 seconds,
# but only ratings and leases are stored.
PRESENT_S = 120
RATINGS_LOOKED_AT = 20

# The open slots of the runs that ask this person, and whether another person rates there now. The
# simulated rater does not count: it does not mind waiting.
SPARE = f"""
    WITH asking AS MATERIALIZED ({ASKING})
    SELECT
        (SELECT count(*) FROM (
            SELECT 1 FROM asking CROSS JOIN LATERAL (
                SELECT 1 FROM feedback_slot s WHERE s.run_id = asking.id AND s.state = 'open'
                LIMIT {MOST_COUNTED}) s
            LIMIT {MOST_COUNTED}) bounded),
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
                AND t.rater_id <> %(user)s AND NOT u.is_simulated)"""


def limit_count(user: User, run: int | None, count: int, ready: int) -> int:
    """Return how many of the `count` wanted items this person's page may claim now.

    `ready` is the number of items that the page holds. A page without any gets one in every case.
    It may hold as many ahead as it leaves open for others. A person who rates alone may always hold
    one ahead, so that the next item appears without a wait.
    """
    needed = 0 if ready else 1
    if count <= needed:
        return count
    with prepared_cursor() as cursor:
        cursor.execute(SPARE, asked_by(user, run))
        spare, has_company = cursor.fetchone()
    ahead = max(0, ready - 1)
    shared = max(0, spare - needed + ahead)
    most = shared // 2 if has_company else max(1, shared // 2)
    return min(count, needed + max(0, most - ahead))
