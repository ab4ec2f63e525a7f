"""Write an arena's votes as a CSV file: every row, including those changed or withdrawn later."""

import csv
from collections.abc import Iterator
from itertools import chain

from apps.accounts.downloads import csv_cell, in_chunks
from apps.evaluation.models import STANDING, Arena, Vote

COLUMNS = (
    "vote",
    "at",
    "rater",
    "task",
    "domain",
    "sample",
    "left",
    "right",
    "choice",
    "better",
    "stands",
    "milliseconds",
    "client_uuid",
)
ROWS_AT_ONCE = 2_000


class _Line:
    """A target for a CSV writer that returns each line."""

    def write(self, line: str) -> str:
        return line


def votes_file(arena: Arena) -> Iterator[bytes]:
    """Yield the file's lines, oldest vote first.

    `left`, `right` and `better` are slugs of evaluations. `choice` is left, right, tie, bad or
    back.
    """
    writer = csv.writer(_Line(), lineterminator="\n")
    lines = (writer.writerow(map(csv_cell, row)) for row in chain([COLUMNS], _rows(arena)))
    return in_chunks(line.encode() for line in lines)


def _rows(arena: Arena) -> Iterator[list]:
    standing_ids = {
        vote.pk for vote in Vote.objects.raw(f"SELECT id FROM ({STANDING}) s", {"arena": arena.pk})
    }
    votes = Vote.objects.filter(pairing__arena=arena).order_by("pk")
    votes = votes.select_related("task", "rater", "pairing__first__run", "pairing__second__run")
    for vote in votes.iterator(ROWS_AT_ONCE):
        first = vote.pairing.first.run.slug
        second = vote.pairing.second.run.slug
        left, right = (first, second) if vote.first_on_left else (second, first)
        better = {"first": first, "second": second}.get(vote.choice, "")
        choice = ("left" if better == left else "right") if better else vote.choice
        yield [
            vote.pk,
            vote.at.isoformat(),
            vote.rater.username,
            vote.task.index,
            vote.task.domain,
            vote.sample_index,
            left,
            right,
            choice,
            better,
            int(vote.pk in standing_ids),
            "" if vote.milliseconds is None else vote.milliseconds,
            vote.client_uuid,
        ]
