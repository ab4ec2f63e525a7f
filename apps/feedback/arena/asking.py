"""What a person is asked next in an arena: of the two contestants with the fewest votes, a task that this person has not judged.

Each person goes through the tasks in a shuffle of their own: two meet the same pair late. A chosen share of questions asks for a
second opinion. Read are one pairing's votes and places in the set, never all pairs of the arena.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from django.db import connection
from django.utils import timezone

from apps.accounts.models import User
from apps.feedback.arena.pairs import Pair, drawn
from apps.feedback.models import STANDING, Arena, Pairing

# Places looked at, in the person's order: nearly always the first has two answers that differ.
LOOKED_AT = (8, 500, None)


@dataclass(frozen=True)
class Progress:
    """A person's votes that stand, by pairing; `today` since midnight by the server's clock; `of` pairs that there are."""

    by_pairing: dict[int, int]
    today: int
    of: int
    all: int = field(default=0)  # everybody's votes that stand

    @property
    def own(self) -> int:
        return sum(self.by_pairing.values())

    @property
    def left(self) -> int:
        return max(0, self.of - self.own)


def progress_of(user: User, arena: Arena, pairings: Sequence[Pairing]) -> Progress:
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    own = STANDING.replace("WHERE p.arena_id", "WHERE v.rater_id = %(rater)s AND p.arena_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT pairing_id, count(*), count(*) FILTER (WHERE at >= %(midnight)s) FROM ({own}) own GROUP BY 1",
            {"arena": arena.pk, "rater": user.pk, "midnight": midnight},
        )
        rows = cursor.fetchall()
    votes, of = sum(one.votes for one in pairings), sum(one.size for one in pairings)
    return Progress({pairing: count for pairing, count, _ in rows}, sum(today for *_, today in rows), of, votes)


def next_pairs(
    user: User, arena: Arena, pairings: Sequence[Pairing], progress: Progress, count: int, held: Collection[Pair] = ()
) -> list[Pair]:
    """Up to `count` pairs that this person has not judged, none of those `held`; fewer where fewer are left."""
    found: list[Pair] = []
    given = {one.pk: one.votes for one in pairings}
    mine = {one.pk: progress.by_pairing.get(one.pk, 0) for one in pairings}
    for pair in held:
        given[pair.pairing.pk] += 1
    open_ones = [one for one in pairings if mine[one.pk] < one.size]
    while open_ones and len(found) < count:
        pairing = min(open_ones, key=lambda one: (given[one.pk], drawn(arena, "pairing", user.pk, one.pk)))
        pair = _one(user, arena, pairing, [*held, *found], mine[pairing.pk])
        if pair is None:
            open_ones.remove(pairing)
        else:
            found.append(pair)
            given[pairing.pk] += 1
            mine[pairing.pk] += 1
    return found


def _one(user: User, arena: Arena, pairing: Pairing, held: Collection[Pair], judged: int) -> Pair | None:
    luck = int.from_bytes(drawn(arena, "again", user.pk, pairing.pk, judged)[:8]) / 2**64
    own = [pair for pair in held if pair.pairing.pk == pairing.pk]
    asked = {
        "pairing": pairing.pk, "rater": user.pk, "taskset": arena.taskset_id, "tasks": arena.tasks, "samples": arena.samples,
        "one": pairing.first.run_id, "other": pairing.second.run_id, "again": luck < arena.again,
        "seed": int.from_bytes(drawn(arena, "order", user.pk, pairing.pk)[:8], signed=True),
        "held_tasks": [pair.task_id for pair in own], "held_samples": [pair.sample for pair in own],
    }  # fmt: skip
    for limit, offset in _reaches():
        with connection.cursor() as cursor:
            cursor.execute(NEXT, {**asked, "limit": limit, "offset": offset})
            row = cursor.fetchone()
        if row:
            return Pair(pairing, *row)
    return None


def _reaches() -> Iterator[tuple[int | None, int]]:
    offset = 0
    for limit in LOOKED_AT:
        yield limit, offset
        offset += limit or 0


# Places (task, sample) in this person's order: those with the fewest opinions first, or those with one if a second is wanted;
# each task once before any of them with another sample. Then the first of them at which both answers came and differ.
NEXT = """
    WITH newest AS MATERIALIZED (
        SELECT DISTINCT ON (task_id, sample_index, rater_id) task_id, sample_index, rater_id, choice
        FROM feedback_vote WHERE pairing_id = %(pairing)s ORDER BY task_id, sample_index, rater_id, id DESC),
    said AS MATERIALIZED (
        SELECT task_id, sample_index, count(*) AS opinions, bool_or(rater_id = %(rater)s) AS mine
        FROM newest WHERE choice <> 'back' GROUP BY 1, 2),
    places AS MATERIALIZED (
        SELECT t.id, t.index, s.n, coalesce(said.opinions, 0) AS opinions, coalesce(said.opinions, 0) = 1 AND %(again)s AS wanted,
            (s.n + (t.shuffled & 65535)) %% %(samples)s AS round, t.shuffled
        FROM (SELECT id, index, hashint8extended(id, %(seed)s) AS shuffled FROM tasksets_task
              WHERE taskset_id = %(taskset)s AND index < %(tasks)s OFFSET 0) t
            CROSS JOIN generate_series(0, %(samples)s - 1) s(n)
            LEFT JOIN said ON said.task_id = t.id AND said.sample_index = s.n
        WHERE said.mine IS NOT TRUE
            AND NOT EXISTS (SELECT 1 FROM unnest(%(held_tasks)s::bigint[], %(held_samples)s::int[]) held(task, sample)
                            WHERE held.task = t.id AND held.sample = s.n)
        ORDER BY wanted DESC, opinions, round, shuffled LIMIT %(limit)s OFFSET %(offset)s)
    SELECT places.id, places.index, places.n FROM places
        JOIN rollouts_group one ON one.run_id = %(one)s AND one.draw_index = places.index
        JOIN rollouts_rollout a ON a.group_id = one.id AND a.origin = 'policy' AND a.sample_index = places.n
            AND a.state = 'finished'
        JOIN rollouts_group other ON other.run_id = %(other)s AND other.draw_index = places.index
        JOIN rollouts_rollout b ON b.group_id = other.id AND b.origin = 'policy' AND b.sample_index = places.n
            AND b.state = 'finished'
    WHERE a.text <> b.text ORDER BY places.wanted DESC, places.opinions, places.round, places.shuffled LIMIT 1"""
