"""Export of tasksets as files: an import of the file has the same digest.

JSON lines hold a task as it is. CSV and Parquet have it in columns; one whose name ends with
`.json` holds JSON, which in a CSV file also keeps spreadsheets from taking a text for a formula.
Pictures come with their tasks, as data addresses.
"""

import base64
import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as pq

from apps.accounts.downloads import CHUNK, in_chunks
from apps.accounts.redacting import Redactor
from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Picture, Task, Taskset

ROWS_AT_ONCE = 500
ROWS_WITH_PICTURES = 10
IN_MEMORY = 8 << 20  # bytes of a Parquet file that need no disk
TYPES = {
    "jsonl": "application/jsonl",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
MESSAGES = arrow.list_(arrow.struct([("role", arrow.string()), ("content", arrow.string())]))
TEXTS = arrow.list_(arrow.string())
CSV_COLUMNS = ("prompt.json", "answer.json", "meta.json", "follow_ups.json", "domain.json")

Row = dict[str, Any]
Progress = Callable[[int], None]


def export_pieces(
    taskset: Taskset,
    format: str,
    progress: Progress = lambda task_count: None,
    redactor: Redactor | None = None,
) -> Iterator[bytes]:
    """Yield the file, piece by piece, a few hundred tasks at a time.

    `format`: one of TYPES; `progress(tasks written)`.
    """
    return {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}[format](
        taskset, _rows_with_progress(taskset, progress, redactor)
    )


def _rows_with_progress(
    taskset: Taskset, progress: Progress, redactor: Redactor | None
) -> Iterator[list[Row]]:
    written_count = 0
    for rows in read_stored_rows(taskset):
        yield rows if redactor is None else [redactor.all_of(row) for row in rows]
        written_count += len(rows)
        progress(written_count)


def read_stored_rows(taskset: Taskset) -> Iterator[list[Row]]:
    """Yield the tasks as an import reads them, in their order, some at a time.

    Each some a query of its own.
    """
    at_once = ROWS_WITH_PICTURES if taskset.shows_pictures else ROWS_AT_ONCE
    for first in range(0, taskset.size, at_once):
        tasks = list(
            taskset.tasks.filter(index__gte=first, index__lt=first + at_once).order_by("index")
        )
        pictures = _pictures(taskset, tasks) if taskset.shows_pictures else {}
        yield [_row(task, pictures) for task in tasks]


def _row(task: Task, pictures: Mapping[str, str]) -> Row:
    prompt = [
        {**message, "content": _content(message["content"], pictures)} for message in task.prompt
    ]
    more = {"meta": task.meta, "follow_ups": task.follow_ups, "domain": task.domain}
    return {"prompt": prompt, "answer": task.answer} | {
        name: value for name, value in more.items() if value
    }


def _content(content: str | list[Row], pictures: Mapping[str, str]) -> str | list[Row]:
    """Return a message's content in the form in which it was imported."""
    if isinstance(content, str):
        return content
    return [
        part if part["type"] == "text" else _picture_part(pictures[part["picture"]])
        for part in content
    ]


def _picture_part(address: str) -> Row:
    return {"type": "image_url", "image_url": {"url": address}}


def _pictures(taskset: Taskset, tasks: list[Task]) -> dict[str, str]:
    """Return their pictures' data addresses, by name."""
    names = {name for task in tasks for name in list_pictures(task.prompt)}
    rows = Picture.objects.filter(project=taskset.project_id, sha256__in=names).values_list(
        "sha256", "png"
    )
    return {name: "data:image/png;base64," + base64.b64encode(png).decode() for name, png in rows}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _jsonl(taskset: Taskset, batches: Iterator[list[Row]]) -> Iterator[bytes]:
    return in_chunks(_json(row).encode() + b"\n" for rows in batches for row in rows)


def _csv(taskset: Taskset, batches: Iterator[list[Row]]) -> Iterator[bytes]:
    yield ",".join(CSV_COLUMNS).encode() + b"\r\n"
    for rows in batches:
        text = io.StringIO()
        csv.writer(text).writerows([_cell(row, column) for column in CSV_COLUMNS] for row in rows)
        yield text.getvalue().encode()


def _cell(row: Row, column: str) -> str | None:
    value = row.get(column.removesuffix(".json"))
    return _json(value) if column.endswith(".json") and value is not None else value


def _parquet(taskset: Taskset, batches: Iterator[list[Row]]) -> Iterator[bytes]:
    """Yield the tasks as Parquet, with messages as a list of structures, as `datasets` has them.

    Messages with pictures are JSON texts: Parquet has no type for them.
    """
    prompt = ("prompt.json", arrow.string()) if taskset.shows_pictures else ("prompt", MESSAGES)
    columns = [
        prompt,
        ("answer.json", arrow.string()),
        ("meta.json", arrow.string()),
        ("follow_ups", TEXTS),
        ("domain", arrow.string()),
    ]
    schema = arrow.schema(columns)
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as stream:
        with pq.ParquetWriter(stream, schema) as writer:
            for rows in batches:
                cells = [{name: _cell(row, name) for name, _ in columns} for row in rows]
                writer.write_batch(arrow.RecordBatch.from_pylist(cells, schema))
        stream.seek(0)
        while piece := stream.read(CHUNK):
            yield piece
