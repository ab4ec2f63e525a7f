"""Select an arena's next questions: tasks that the person has not judged, of the rarest pairing.

The pairing is the one with the fewest votes. Each person goes through the tasks in steps of their
own, so two people rarely get the same pair early. A configured share of questions asks for a second
opinion. A pair that a page has ready is not held: others get it too, and each person judges every
pair, so a page needs no limit on what it fetches ahead. Only one pairing's votes and positions in
the set are read, never all pairs of the arena.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import gcd

from django.db import connection
from django.utils import timezone

from apps.accounts.models import User
from apps.evaluation.arena.pairs import Pair, arena_bytes
from apps.evaluation.models import STANDING, Arena, Pairing

# Positions tried, in the person's order: nearly always the first has two answers that differ.
LOOKED_AT = (8, 500, None)


@dataclass(frozen=True)
class Progress:
    """A person's current votes, by pairing.

    `today` counts since midnight by the server's clock; `of` is the number of pairs that exist.
    """

    by_pairing: dict[int, int]
    today: int
    of: int
    all: int = field(default=0)  # all people's votes in force

    @property
    def own(self) -> int:
        return sum(self.by_pairing.values())

    @property
    def left(self) -> int:
        return max(0, self.of - self.own)


def arena_progress(user: User, arena: Arena, pairings: Sequence[Pairing]) -> Progress:
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    query = STANDING.replace("WHERE p.arena_id", "WHERE v.rater_id = %(rater)s AND p.arena_id")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pairing_id, count(*), count(*) FILTER (WHERE at >= %(midnight)s)"
            f" FROM ({query}) own GROUP BY 1",
            {"arena": arena.pk, "rater": user.pk, "midnight": midnight},
        )
        rows = cursor.fetchall()
    votes = sum(pairing.votes for pairing in pairings)
    of = sum(pairing.size for pairing in pairings)
    return Progress(
        {pairing: count for pairing, count, _ in rows}, sum(today for *_, today in rows), of, votes
    )


def next_pairs(
    user: User,
    arena: Arena,
    pairings: Sequence[Pairing],
    progress: Progress,
    limit: int,
    shown_pairs: Collection[Pair] = (),
) -> list[Pair]:
    """Return up to `limit` pairs that this person has not judged, none of them in `shown_pairs`."""
    pairs: list[Pair] = []
    votes_by_pairing = {candidate.pk: candidate.votes for candidate in pairings}
    own_votes = {candidate.pk: progress.by_pairing.get(candidate.pk, 0) for candidate in pairings}
    for pair in shown_pairs:
        votes_by_pairing[pair.pairing.pk] += 1
    open_pairings = [
        candidate for candidate in pairings if own_votes[candidate.pk] < candidate.size
    ]
    while open_pairings and len(pairs) < limit:
        pairing = min(
            open_pairings,
            key=lambda candidate: (
                votes_by_pairing[candidate.pk],
                arena_bytes(arena, "pairing", user.pk, candidate.pk),
            ),
        )
        next_pair = _load_pair(user, arena, pairing, [*shown_pairs, *pairs], own_votes[pairing.pk])
        if next_pair is None:
            open_pairings.remove(pairing)
        else:
            pairs.append(next_pair)
            votes_by_pairing[pairing.pk] += 1
            own_votes[pairing.pk] += 1
    return pairs


def _load_pair(
    user: User, arena: Arena, pairing: Pairing, shown_pairs: Collection[Pair], judged: int
) -> Pair | None:
    luck = int.from_bytes(arena_bytes(arena, "again", user.pk, pairing.pk, judged)[:8]) / 2**64
    same_pairing = [pair for pair in shown_pairs if pair.pairing.pk == pairing.pk]
    seed = arena_bytes(arena, "order", user.pk, pairing.pk)
    parameters = {
        "pairing": pairing.pk,
        "rater": user.pk,
        "taskset": arena.taskset_id,
        "tasks": arena.tasks,
        "samples": arena.samples,
        "one": pairing.first.run_id,
        "other": pairing.second.run_id,
        "seed": int.from_bytes(seed[:8], signed=True),
        "stride": _stride(arena.tasks, seed[8:16]),
        "begin": int.from_bytes(seed[16:24]) % arena.tasks,
        "held_tasks": [pair.index for pair in same_pairing],
        "held_samples": [pair.sample for pair in same_pairing],
    }
    for places in (SECOND, FRESH) if luck < arena.again else (FRESH,):
        if row := _first(places, parameters):
            return Pair(pairing, *row)
    row = _first(JUDGED, parameters)
    return Pair(pairing, *row) if row else None


def _stride(tasks: int, seed: bytes) -> int:
    """Return a number coprime to the number of tasks, so that steps of it visit each task once."""
    first = int.from_bytes(seed) % tasks
    return next(n for n in count(first) if gcd(n, tasks) == 1)


def _first(places: str, parameters: dict) -> tuple | None:
    for limit, offset in _pages_of_places(parameters["tasks"] * parameters["samples"]):
        with connection.cursor() as cursor:
            cursor.execute(
                NEXT.format(places=places), {**parameters, "limit": limit, "offset": offset}
            )
            if row := cursor.fetchone():
                return row
    return None


def _pages_of_places(places: int) -> Iterator[tuple[int | None, int]]:
    offset = 0
    for limit in LOOKED_AT:
        if offset < places:
            yield limit, offset
        offset += limit or 0


# Positions (task, sample) that nobody judged, in this person's order: each task once before any of
# them with another sample. They are generated one by one, and no more than are tried: a set of many
# thousands is never sorted for a question. That needs NOT IN, which PostgreSQL checks position by
# position as they come, and no ORDER BY.
FRESH = """
    SELECT index, n, place FROM (
        SELECT place, index, ((place / %(tasks)s + shift) %% %(samples)s)::int AS n FROM (
            SELECT place, index, hashint4extended(index, %(seed)s) & 65535 AS shift FROM (
                SELECT place, ((place * %(stride)s + %(begin)s) %% %(tasks)s)::int AS index FROM (
                    SELECT generate_series(0, %(tasks)s::bigint * %(samples)s - 1)
                        AS place) counted) walked) shifted) placed
    WHERE (index, n) NOT IN (SELECT index, sample_index
        FROM judged) AND (index, n) NOT IN (SELECT task, sample FROM held)"""
# Positions that others judged and this person did not, those with the fewest opinions first.
JUDGED = """
    SELECT index, sample_index AS n,
        row_number() OVER (
            ORDER BY opinions,
                (sample_index + 65536 * %(samples)s::bigint - (hashint4extended(index,
                    %(seed)s) & 65535)) %% %(samples)s,
                hashint8extended(index, %(seed)s)) AS place
    FROM judged WHERE mine IS NOT TRUE AND index < %(tasks)s AND sample_index < %(samples)s
        AND (index, sample_index) NOT IN (SELECT task, sample FROM held)"""
SECOND = JUDGED + " AND opinions = 1"
# The first position at which both answers exist and differ. Each is looked up by itself, in order,
# until one is found: OFFSET 0 keeps the planner from joining whole runs and sets instead, which it
# does when its estimate is slightly wrong.
ANSWER = """(
        SELECT text FROM rollouts_group g JOIN rollouts_rollout r ON r.group_id = g.id
        WHERE g.run_id = %({run})s AND g.draw_index = places.index
            AND r.origin = 'policy' AND r.sample_index = places.n
                AND r.state = 'finished' OFFSET 0)"""
NEXT = f"""
    WITH newest AS MATERIALIZED (
        SELECT DISTINCT ON (task_id, sample_index, rater_id) task_id, sample_index, rater_id, choice
        FROM evaluation_vote WHERE pairing_id = %(pairing)s
            ORDER BY task_id, sample_index, rater_id, id DESC),
    judged AS MATERIALIZED (
        SELECT t.index, sample_index, count(*) AS opinions, bool_or(rater_id = %(rater)s) AS mine
        FROM newest JOIN tasksets_task t ON t.id = task_id WHERE choice <> 'back' GROUP BY 1, 2),
    held AS MATERIALIZED (
        SELECT * FROM unnest(%(held_tasks)s::int[], %(held_samples)s::int[]) held(task, sample)),
    places AS MATERIALIZED (SELECT * FROM ({{places}}) ordered LIMIT %(limit)s OFFSET %(offset)s)
    SELECT t.id, places.index, places.n FROM (SELECT * FROM places ORDER BY place OFFSET 0) places
        CROSS JOIN LATERAL {ANSWER.format(run="one")} a
        CROSS JOIN LATERAL {ANSWER.format(run="other")} b
        CROSS JOIN LATERAL (
            SELECT id FROM tasksets_task
                WHERE taskset_id = %(taskset)s AND index = places.index OFFSET 0) t
    WHERE a.text <> b.text ORDER BY places.place LIMIT 1"""
