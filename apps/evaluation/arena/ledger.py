"""Integrity checks of arenas; a sound database yields no violations."""

from collections.abc import Iterator

from django.db import connection

SHOWN = 20


def votes_refer_to_answers_of_their_arena() -> Iterator[str]:
    """Yield votes about contestants or answers that are not of the vote's arena.

    Both contestants must be in the arena and have been asked its taskset; both answers must exist,
    be finished, and be in the range that is judged.
    """
    for pairing in _run_query(STRANGE_PAIRINGS):
        yield f"pairing {pairing}: its contestants are not evaluations of its arena's taskset"
    for vote in _run_query(WITHOUT_ANSWERS):
        yield f"vote {vote}: one of its two answers does not exist"


def arenas_count_their_votes() -> Iterator[str]:
    """Yield pairings whose vote counter, which selects the next questions, is wrong."""
    for pairing, counted, row_count in _run_query(COUNTED, whole=True):
        yield f"pairing {pairing}: the counter has {counted} votes, the rows {row_count}"


def _run_query(sql: str, whole: bool = False) -> list:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"shown": SHOWN})
        return cursor.fetchall() if whole else [row[0] for row in cursor.fetchall()]


STRANGE_PAIRINGS = """
    SELECT p.id FROM evaluation_pairing p JOIN evaluation_arena a ON a.id = p.arena_id
        JOIN evaluation_contestant one ON one.id = p.first_id
            JOIN evaluation_contestant other ON other.id = p.second_id
        JOIN runs_run r ON r.id = one.run_id JOIN runs_run s ON s.id = other.run_id
    WHERE one.arena_id <> a.id OR other.arena_id <> a.id OR NOT r.is_evaluation
        OR NOT s.is_evaluation
        OR r.taskset_id IS DISTINCT FROM a.taskset_id OR s.taskset_id IS DISTINCT FROM a.taskset_id
        OR r.project_id <> a.project_id OR s.project_id <> a.project_id
    ORDER BY p.id LIMIT %(shown)s"""

WITHOUT_ANSWERS = """
    SELECT v.id FROM evaluation_vote v JOIN evaluation_pairing p ON p.id = v.pairing_id
        JOIN tasksets_task t ON t.id = v.task_id
    WHERE EXISTS (
        SELECT 1 FROM evaluation_contestant c
        WHERE c.id IN (p.first_id, p.second_id) AND NOT EXISTS (
            SELECT 1 FROM rollouts_group g JOIN rollouts_rollout r ON r.group_id = g.id
            WHERE g.run_id = c.run_id AND g.draw_index = t.index AND g.task_id = v.task_id
                AND r.origin = 'policy'
                AND r.sample_index = v.sample_index AND r.state = 'finished'))
    ORDER BY v.id LIMIT %(shown)s"""

COUNTED = """
    SELECT p.id, p.votes, coalesce(n.votes, 0) FROM evaluation_pairing p LEFT JOIN (
        SELECT pairing_id, count(*) AS votes FROM (
            SELECT DISTINCT ON (pairing_id, task_id, sample_index, rater_id) pairing_id, choice
                FROM evaluation_vote
            ORDER BY pairing_id, task_id, sample_index, rater_id, id DESC) newest
        WHERE choice <> 'back' GROUP BY 1) n ON n.pairing_id = p.id
    WHERE p.votes <> coalesce(n.votes, 0) ORDER BY p.id LIMIT %(shown)s"""
