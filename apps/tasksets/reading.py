"""Records of any source as tasks: strict, and never stopping at a bad line.

Every record is either a task or a `BadLine` with its number and reason; the reader holds one at a time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from apps.tasksets.judged_by import BadJudges, named_in
from apps.tasksets.limits import BadLimits, limits_in
from apps.tasksets.messages import NONE_KNOWN, BadContent, Content, ReadPath, pictures_of, read_content, text_of
from apps.tasksets.pictures import Encoded
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.sources.jsonl import records_of
from apps.tasksets.sources.records import BadLine, Record, excerpt_of

ROLES = frozenset({"system", "user", "assistant"})
MOST_FOLLOW_UPS = 100
DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


class NotATask(ValueError):
    """The line is no task; the message says what is wrong and what is right."""


@dataclass(frozen=True)
class Columns:
    """Under which keys the file keeps what we need. `answer` None: the file has none; those below it may be missing, or "".

    `answer_key`: under which key of a task's answer scorers look for what the file says plainly, as "4". `more_meta`: columns that
    are kept in a task's meta under their own names.
    """

    prompt: str = "prompt"
    answer: str | None = "answer"
    follow_ups: str = "follow_ups"
    domain: str = "domain"
    meta: str = "meta"
    answer_key: str = "value"
    more_meta: tuple[str, ...] = ()


def read(
    records: Iterable[Record | BadLine],
    columns: Columns,
    path: ReadPath | None = None,
    known: Mapping[str, Encoded] = NONE_KNOWN,
) -> Iterator[TaskRow | BadLine]:
    """Tasks and bad lines in the order of the records.

    `path` reads pictures beside the file; `known` are pictures that were decoded before.
    """
    for record in records:
        if isinstance(record, BadLine):
            yield record
            continue
        try:
            yield _task(record, columns, path, known)
        except NotATask as error:
            yield BadLine(record.number, str(error), excerpt_of(record.raw))


def read_jsonl(stream: BinaryIO, columns: Columns, path: ReadPath | None = None) -> Iterator[TaskRow | BadLine]:
    """Tasks and bad lines of JSON lines."""
    return read(records_of(stream), columns, path)


def _task(record: Record, columns: Columns, path: ReadPath | None, known: Mapping[str, Encoded]) -> TaskRow:
    row, taken = record.fields, {}
    return TaskRow(
        prompt_of(row, columns.prompt, taken, path, known), _answer(row, columns.answer, columns.answer_key), _meta(row, columns),
        _follow_ups(row, columns.follow_ups), tuple(taken.values()), _domain(row, columns.domain), record.number,
    )  # fmt: skip


def prompt_of(
    row: dict[str, Any],
    column: str,
    taken: dict[str, Encoded],
    path: ReadPath | None = None,
    known: Mapping[str, Encoded] = NONE_KNOWN,
) -> list[dict[str, Content]]:
    """A text becomes one user message; a list must be chat messages that end with the user's. Pictures are added to `taken`."""
    if column not in row:
        raise NotATask(f"no column {column!r}; there are {', '.join(sorted(row)[:10]) or 'none'}")
    prompt = row[column]
    messages = user_message(prompt) if isinstance(prompt, str) else prompt
    if not isinstance(messages, list) or not messages:
        raise NotATask(f"{column}: must be a text or a list of messages")
    messages = [_message(message, f"{column}[{place}]", taken, path, known) for place, message in enumerate(messages)]
    last = messages[-1]
    if last["role"] != "user" or not text_of(last["content"]).strip():
        raise NotATask(f"{column}: the last message must be the user's, and say something")
    return messages


def _message(
    message: Any, place: str, taken: dict[str, Encoded], path: ReadPath | None, known: Mapping[str, Encoded]
) -> dict[str, Content]:
    column = place.partition("[")[0]
    if not isinstance(message, dict) or set(message) != {"role", "content"}:
        raise NotATask(f"{column}: a message has exactly role and content")
    if message["role"] not in ROLES:
        raise NotATask(f"{column}: role must be one of {', '.join(sorted(ROLES))}")
    try:
        said = {"role": message["role"], "content": read_content(message["content"], taken, path, known)}
    except BadContent as error:
        raise NotATask(f"{place}.content{error.where}: {error.why}") from None
    if said["role"] != "user" and pictures_of([said]):
        raise NotATask(f"{place}.content: only the user shows pictures")
    return said


def _follow_ups(row: dict[str, Any], column: str) -> list[str]:
    """What the user says after each answer; none where the column is missing or null."""
    texts = row.get(column) if column else None
    if texts is None:
        return []
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise NotATask(f"{column}: must be a list of texts, what the user says after each answer")
    if len(texts) > MOST_FOLLOW_UPS:
        raise NotATask(f"{column}: at most {MOST_FOLLOW_UPS} are taken, not {len(texts)}")
    return texts


def _meta(row: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """What else is known of the task, such as its grade; nothing where the column is missing or null."""
    meta = row.get(columns.meta) if columns.meta else None
    if meta is not None and not isinstance(meta, dict):
        raise NotATask(f"{columns.meta}: must be an object")
    said = (meta or {}) | {name: row[name] for name in columns.more_meta if row.get(name) is not None}
    try:
        limits_in(said)
        named_in(said)
    except (BadLimits, BadJudges) as error:
        raise NotATask(str(error)) from None
    return said


def _domain(row: dict[str, Any], column: str) -> str:
    domain = row.get(column) if column else None
    if domain is None:
        return ""
    if not isinstance(domain, str) or not DOMAIN.fullmatch(domain):
        raise NotATask(f"{column}: must be a name of lower-case letters, digits, - and _, at most 60")
    return domain


def _answer(row: dict[str, Any], column: str | None, key: str) -> dict[str, Any]:
    """An object is taken as it is; anything else becomes {key: it}."""
    if column is None:
        return {}
    if column not in row or row[column] is None:
        raise NotATask(f"no {column!r}; a task needs an answer to be judged by")
    answer = row[column]
    return answer if isinstance(answer, dict) else {key: answer}
