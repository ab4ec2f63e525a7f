"""Options for reading an uploaded file, and its first rows read with them.

The rows come from the preview that a worker made of the file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from apps.tasksets.duplicates import KEEP
from apps.tasksets.layouts import BY_NAME, PLAIN, TASKS, recognised
from apps.tasksets.pictures import BadPicture, EncodedPicture
from apps.tasksets.reading import Columns, read_tasks
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources.records import BadLine, Record

# Rows of these are read by their columns, which people see and may choose otherwise.
BY_COLUMNS = (PLAIN[TASKS], BY_NAME["question"])
MAX_COLUMNS = 200  # that are offered
MAX_COLUMN_LENGTH = 200  # characters of the name of one
# What others call the two columns that a task is made of, most telling first.
PROMPTS = ("prompt", "question", "problem", "instruction", "query", "input", "messages")
ANSWERS = ("answer", "solution", "output", "response", "target", "label", "completion", "result")


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import; `answer` and the columns below it may be "".

    `layout`: the name of one, which then says what prompt and answer are; "" goes by the columns.
    """

    format: str = "auto"
    split: str = ""  # of a folder that has several
    layout: str = ""
    prompt: str = Columns.prompt
    answer: str = Columns.answer or ""
    domain: str = Columns.domain
    follow_ups: str = Columns.follow_ups
    meta: str = Columns.meta
    more_meta: tuple[str, ...] = ()
    answer_key: str = Columns.answer_key
    quarantine: bool = False
    duplicates: str = KEEP
    operators: str = ""  # those that look at its tasks, as YAML
    version_of: str = ""  # slug of the set of which it is the next version

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "ImportOptions":
        return cls(**stored | {"more_meta": tuple(stored.get("more_meta", ()))})

    def written(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def columns(self) -> Columns:
        return Columns(
            self.prompt,
            self.answer or None,
            self.follow_ups,
            self.domain,
            self.meta,
            self.answer_key,
            self.more_meta,
            self.layout,
        )


@dataclass(frozen=True)
class RowPreview:
    """The first rows of a file as tasks or as bad lines, and its columns; or why it cannot be
    read at all.
    """

    columns: Sequence[str] = ()
    rows: Sequence[TaskRow | BadLine] = ()
    refusal: str = ""
    dropped: Sequence[
        tuple[str, int]
    ] = ()  # fields that are not taken, with the rows in which they say something

    @property
    def bad(self) -> list[BadLine]:
        return [row for row in self.rows if isinstance(row, BadLine)]


def look_at_rows(preview: Mapping[str, Any], how: ImportOptions) -> RowPreview:
    """Return the previewed rows as these columns make them tasks; nothing of the file is read."""
    records = [_record(*row) for row in preview.get("rows", ())]
    pictures = {
        name: EncodedPicture(name, width, height, b"")
        for name, (width, height) in preview.get("pictures", {}).items()
    }
    columns = preview.get("columns", ())
    rows = read_tasks(records, how.columns, _refused_picture, pictures)
    return RowPreview(columns, list(rows), preview.get("refusal", ""), sorted(rows.dropped.items()))


def guess_columns(preview: Mapping[str, Any], how: ImportOptions) -> ImportOptions:
    """Return these choices with the layout of the first rows, and with the columns that fit the
    file by their names.
    """
    columns = preview.get("columns", ())
    prompt = next((name for name in PROMPTS if name in columns), Columns.prompt)
    answer = next((name for name in ANSWERS if name in columns), "")
    rows = [fields for _, fields, *_ in preview.get("rows", ()) if fields is not None]
    layout = recognised(rows, TASKS)
    name = layout.name if layout and layout not in BY_COLUMNS else ""
    return replace(
        how,
        prompt=prompt,
        answer=answer,
        domain=Columns.domain if Columns.domain in columns else "",
        follow_ups=Columns.follow_ups if Columns.follow_ups in columns else "",
        meta=Columns.meta if Columns.meta in columns else "",
        more_meta=(),
        layout=name,
    )


def _record(
    number: int, fields: dict[str, Any] | None, reason: str, excerpt: str
) -> Record | BadLine:
    return (
        BadLine(number, reason, excerpt)
        if fields is None
        else Record(number, fields, excerpt.encode())
    )


def _refused_picture(why: str) -> bytes:
    """Raise BadPicture with the reason that the preview holds in place of the picture."""
    raise BadPicture(why)
