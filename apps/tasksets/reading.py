"""Rows of any source as tasks: strict, and never stopping at a bad row.

Every record is either a task or a `BadLine` with its number and reason; one is held at a time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO

from apps.tasksets.code_test_values import BadTests
from apps.tasksets.code_tests import OF_TESTS, normal_form, prompt_column
from apps.tasksets.judged_by import BadJudges, named_in
from apps.tasksets.layouts import (
    BY_NAME,
    LOOKED_AT,
    PLAIN,
    TASKS,
    Layout,
    NotThisLayout,
    RowReading,
    count_dropped,
    read_row,
    recognised,
)
from apps.tasksets.layouts.context import taken_from, with_context
from apps.tasksets.layouts.conversations import read_prompt_messages
from apps.tasksets.layouts.questions import domain_name
from apps.tasksets.limits import BadLimits, limits_in
from apps.tasksets.messages import (
    NONE_KNOWN,
    BadContent,
    Content,
    ReadPath,
    content_text,
    list_pictures,
    read_content,
)
from apps.tasksets.pictures import EncodedPicture
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources.jsonl import iterate_records
from apps.tasksets.sources.records import BadLine, Record, line_excerpt

MAX_FOLLOW_UPS = 100
DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
BY_COLUMNS = ""
AUTO = "auto"  # layouts that are none


class NotATask(ValueError):
    """Raised for a line that is no task; says what is wrong and what is right."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are read. `answer` None: the file has none.

    Those below it may be missing, or "".

    `answer_key`: under which key of a task's answer scorers look for what the file says plainly, as
    "4". `more_meta`: columns that are kept in a task's meta under their own names. `layout`: the
    name of one of `apps.tasksets.layouts`, which then says what prompt, answer and meta are; "auto"
    tells it by the first rows, "" goes by the columns alone.
    """

    prompt: str = "prompt"
    answer: str | None = "answer"
    follow_ups: str = "follow_ups"
    domain: str = "domain"
    meta: str = "meta"
    answer_key: str = "value"
    more_meta: tuple[str, ...] = ()
    layout: str = BY_COLUMNS

    @property
    def names(self) -> frozenset[str]:
        """Return the columns of the file that are mapped to something."""
        columns = (
            self.prompt,
            self.answer,
            self.follow_ups,
            self.domain,
            self.meta,
            *self.more_meta,
        )
        return frozenset(name for name in columns if name)


class TaskRows:
    """Tasks and bad rows in the order of the records.

    `path` reads pictures beside the file; `known` are pictures that were decoded before. `layout`
    is None where rows go by the columns. `dropped` counts, while the rows are read, in how many of
    them each field that is not taken says something.
    """

    def __init__(
        self,
        records: Iterable[Record | BadLine],
        columns: Columns,
        path: ReadPath | None = None,
        decoded: Mapping[str, EncodedPicture] = NONE_KNOWN,
    ) -> None:
        self.columns = columns
        self.path = path
        self.decoded = decoded
        self.dropped: Counter[str] = Counter()
        self.layout: Layout | None = None
        source = iter(records)
        first: list[Record | BadLine] = []
        if columns.layout == AUTO:
            first = list(islice(source, LOOKED_AT))
            layout = recognised(
                [record.fields for record in first if isinstance(record, Record)], TASKS
            )
            self.layout = None if layout is PLAIN[TASKS] else layout
        elif columns.layout:
            self.layout = BY_NAME[columns.layout]
        self._records = chain(first, source)

    def __iter__(self) -> Iterator[TaskRow | BadLine]:
        for record in self._records:
            if isinstance(record, BadLine):
                yield record
                continue
            try:
                yield self._task(record)
            except (NotATask, NotThisLayout) as error:
                yield BadLine(record.number, str(error), line_excerpt(record.raw), raw=record.raw)

    def _task(self, record: Record) -> TaskRow:
        taking = RowReading()
        pictures: dict[str, EncodedPicture] = {}
        row = (
            self._by_layout(record.fields, taking)
            if self.layout
            else self._by_columns(record.fields, taking)
        )
        task = TaskRow(
            read_prompt(row, "prompt", pictures, self.path, self.decoded),
            row["answer"],
            row["meta"],
            row["follow_ups"],
            tuple(pictures.values()),
            row["domain"],
            record.number,
        )
        count_dropped(self.dropped, taking.dropped)
        return task

    def _by_columns(self, fields: dict[str, Any], taking: RowReading) -> dict[str, Any]:
        """Return the row with our names for the columns that are mapped."""
        columns = self.columns
        prompt = columns.prompt
        tests = columns.answer not in fields and _tests_in(fields)
        if prompt not in fields and tests:
            prompt = prompt_column(fields) or prompt
        if prompt not in fields:
            present_columns = ", ".join(sorted(fields)[:10]) or "none"
            raise NotATask(f"no column {prompt!r}; found {present_columns}")
        used = columns.names | {prompt} | (OF_TESTS if tests else frozenset())
        present = {name for name, value in fields.items() if value is not None}
        taking.dropped.update(present - used - taken_from(fields, used))
        messages = _messages(fields[prompt], prompt, taking)
        return {
            "prompt": with_context(messages, fields, used, taking),
            "answer": _answer(fields, columns.answer, columns.answer_key),
            "meta": _meta(fields, columns.meta, columns.more_meta),
            "follow_ups": _follow_ups(fields, columns.follow_ups),
            "domain": _domain(fields, columns.domain),
        }

    def _by_layout(self, fields: dict[str, Any], taking: RowReading) -> dict[str, Any]:
        """Return the row as its layout reads it; columns that the user named replace those."""
        columns = self.columns
        usual = Columns()
        (row,) = read_row(self.layout, fields, TASKS, taking)
        more_meta = {
            name: fields[name] for name in columns.more_meta if fields.get(name) is not None
        }
        taking.dropped.difference_update(
            columns.more_meta, (columns.domain, columns.follow_ups, columns.meta)
        )
        own_domain = _domain(row, "domain")
        return {
            "prompt": row.get("prompt"),
            "answer": _answer(row, "answer", columns.answer_key),
            "meta": _meta(row, "meta", ()) | _meta(fields, columns.meta, ()) | more_meta,
            "follow_ups": _follow_ups(fields, columns.follow_ups),
            "domain": (
                own_domain
                if columns.domain == usual.domain and own_domain
                else _domain(fields, columns.domain)
            ),
        }


def read_tasks(
    records: Iterable[Record | BadLine],
    columns: Columns,
    path: ReadPath | None = None,
    decoded: Mapping[str, EncodedPicture] = NONE_KNOWN,
) -> TaskRows:
    """Return the tasks and bad rows of these records."""
    return TaskRows(records, columns, path, decoded)


def read_jsonl(stream: BinaryIO, columns: Columns, path: ReadPath | None = None) -> TaskRows:
    """Return the tasks and bad lines of JSON lines."""
    return read_tasks(iterate_records(stream), columns, path)


def read_prompt(
    row: dict[str, Any],
    column: str,
    pictures: dict[str, EncodedPicture],
    path: ReadPath | None = None,
    decoded: Mapping[str, EncodedPicture] = NONE_KNOWN,
) -> list[dict[str, Content]]:
    """Return a prompt's messages, which end with the user's.

    The message's pictures are added to `pictures`. Raises NotATask, NotThisLayout.
    """
    if row.get(column) is None:
        raise NotATask(f"no column {column!r}; found {', '.join(sorted(row)[:10]) or 'none'}")
    messages = _messages(row[column], column, RowReading())
    messages = [
        _message(message, f"{column}[{place}]", pictures, path, decoded)
        for place, message in enumerate(messages)
    ]
    last = messages[-1]
    if last["role"] != "user" or not content_text(last["content"]).strip():
        raise NotATask(f"{column}: the last message must be from the user and must not be empty")
    return messages


def _messages(value: Any, column: str, taking: RowReading) -> list[dict[str, Any]]:
    if not isinstance(value, str | list | dict) or not value:
        raise NotATask(f"{column}: must be text or a list of messages")
    return read_prompt_messages(value, column, taking)


def _message(
    message: dict[str, Any],
    place: str,
    pictures: dict[str, EncodedPicture],
    path: ReadPath | None,
    decoded: Mapping[str, EncodedPicture],
) -> dict[str, Content]:
    try:
        stored = {
            "role": message["role"],
            "content": read_content(message["content"], pictures, path, decoded),
        }
    except BadContent as error:
        raise NotATask(f"{place}.content{error.where}: {error.why}") from None
    if stored["role"] != "user" and list_pictures([stored]):
        raise NotATask(f"{place}.content: only messages of the user can contain images")
    return stored


def _follow_ups(row: dict[str, Any], column: str) -> list[str]:
    """Return what the user says after each answer; nothing where the column is missing or null."""
    texts = row.get(column) if column else None
    if texts is None:
        return []
    if not isinstance(texts, list) or not all(
        isinstance(text, str) and text.strip() for text in texts
    ):
        raise NotATask(f"{column}: must be a list of texts that the user sends after each answer")
    if len(texts) > MAX_FOLLOW_UPS:
        raise NotATask(f"{column}: must have at most {MAX_FOLLOW_UPS} items, not {len(texts)}")
    return texts


def _meta(row: dict[str, Any], column: str, more: tuple[str, ...]) -> dict[str, Any]:
    """Return what else is known of the task, such as its grade; nothing where the column is
    missing or null."""
    meta = row.get(column) if column else None
    if meta is not None and not isinstance(meta, dict):
        raise NotATask(f"{column}: must be an object")
    meta_values = (meta or {}) | {name: row[name] for name in more if row.get(name) is not None}
    try:
        limits_in(meta_values)
        named_in(meta_values)
    except (BadLimits, BadJudges) as error:
        raise NotATask(str(error)) from None
    return meta_values


def _domain(row: dict[str, Any], column: str) -> str:
    """Return the domain's name, a name as the Hub has it ("Number Theory") in our spelling."""
    domain = row.get(column) if column else None
    if domain is None:
        return ""
    if isinstance(domain, str) and DOMAIN.fullmatch(domain):
        return domain
    if not (name := domain_name(domain)):
        raise NotATask(f"{column}: must be a name of letters, digits, - and _, at most 60")
    return name


def _answer(row: dict[str, Any], column: str | None, key: str) -> dict[str, Any]:
    """Return an object as it is, anything else as {key: it}.

    Tests of programs are brought into one form, also where they stand beside the answer's column.
    """
    if column is None:
        return {}
    if column not in row or row[column] is None:
        if tests := _tests_in(row):
            return tests
        raise NotATask(f"no {column!r}; a task needs a reference answer")
    answer = row[column]
    fields = answer if isinstance(answer, dict) else {key: answer}
    if tests := _tests_in(fields):
        return {name: value for name, value in fields.items() if name not in OF_TESTS} | tests
    return fields


def _tests_in(content: dict[str, Any]) -> dict[str, Any]:
    """Return the tests of a program in the stored form; {} if there are none."""
    try:
        tests = normal_form(content)
    except BadTests as error:
        raise NotATask(str(error)) from None
    return tests.answer if tests else {}
