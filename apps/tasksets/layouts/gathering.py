"""Put successive rows together where a file has one thing in several rows: a tree, a task."""

from collections.abc import Iterable, Iterator

from apps.tasksets.layouts.contract import Gathering, Layout, NotThisLayout
from apps.tasksets.sources.records import BadLine, Record, line_excerpt

MAX_ROWS_HELD = 10_000  # rows that are held at once


def gathered(records: Iterable[Record | BadLine], layout: Layout) -> Iterator[Record | BadLine]:
    """Yield one record for all successive rows with the same key, numbered as the first of them.

    Rows that cannot be put together are one bad line with the reason. Rows of other layouts, and
    all rows where the layout gathers none, pass as they are.
    """
    if layout.gathering is None:
        yield from records
        return
    waiting: list[Record] = []
    for record in records:
        match = record if isinstance(record, Record) and layout.matches(record.fields) else None
        if waiting and not (match is not None and _follows(waiting, match, layout.gathering)):
            yield _join_records(waiting, layout.gathering)
            waiting = []
        if match is not None:
            waiting.append(match)
        else:
            yield record
    if waiting:
        yield _join_records(waiting, layout.gathering)


def _follows(waiting: list[Record], record: Record, gathering: Gathering) -> bool:
    key = gathering.key
    has_same_key = key(waiting[0].fields) == key(record.fields)
    return has_same_key and len(waiting) < MAX_ROWS_HELD


def _join_records(records: list[Record], gathering: Gathering) -> Record | BadLine:
    first = records[0]
    raw = b"\n".join(record.raw.rstrip(b"\r\n") for record in records)
    try:
        fields = gathering.join([record.fields for record in records])
    except NotThisLayout as error:
        return BadLine(first.number, str(error), line_excerpt(first.raw), raw=raw)
    return Record(first.number, fields, raw, first.decodes_columns)
