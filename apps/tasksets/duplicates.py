"""Duplicate tasks of a file: the same prompt, follow-ups and answer, whatever their meta.

What was seen is kept in a temporary table, not in memory: a million digests would be some 200 MB of
Python objects.
"""

import hashlib
import json
from collections.abc import Sequence

from django.db import connection

from apps.tasksets.rows import TaskRow

KEEP = "keep"
DROP = "drop"
REFUSE = "refuse"
CHOICES = (KEEP, DROP, REFUSE)


class SeenContents:
    """Contents of the tasks so far, each with its first line; for one import's transaction."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TEMPORARY TABLE IF NOT EXISTS seen_tasks (content bytea PRIMARY KEY, line"
                " bigint) ON COMMIT DROP;TRUNCATE seen_tasks"
            )

    def first_lines(self, rows: Sequence[TaskRow]) -> list[int]:
        """Return for each row the first line with the same content, and remember the rows.

        It is the row's own line if no earlier row has the content.
        """
        contents = [digest_content(row) for row in rows]
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO seen_tasks SELECT content, min(line) FROM unnest(%s::bytea[],"
                " %s::bigint[]) said(content, line) GROUP BY content ON CONFLICT DO NOTHING",
                [contents, [row.line for row in rows]],
            )
            cursor.execute(
                "SELECT content, line FROM seen_tasks WHERE content = ANY(%s)", [contents]
            )
            lines = {bytes(content): line for content, line in cursor.fetchall()}
        return [lines[content] for content in contents]


def digest_content(row: TaskRow) -> bytes:
    """Return the sha256 of what is asked and what is right."""
    content = json.dumps(
        [row.prompt, row.follow_ups, row.answer],
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return hashlib.sha256(content.encode()).digest()
