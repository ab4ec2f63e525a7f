"""How a sent file is to be read, and its first rows read so, from the preview that a worker made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from apps.tasksets.duplicates import KEEP
from apps.tasksets.pictures import BadPicture, Encoded
from apps.tasksets.reading import Columns, read
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources.records import BadLine, Record

MOST_COLUMNS = 200  # that are offered
LONGEST_COLUMN = 200  # characters of the name of one
# What others call the two columns that a task is made of, most telling first.
PROMPTS = ("prompt", "question", "problem", "instruction", "query", "input", "messages")
ANSWERS = ("answer", "solution", "output", "response", "target", "label", "completion", "result")


@dataclass(frozen=True)
class How:
    """The choices of an import; `answer` and the columns below it are "" where the file has none."""

    format: str = "auto"
    split: str = ""  # of a folder that has several
    prompt: str = Columns.prompt
    answer: str = Columns.answer
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
    def read(cls, stored: dict[str, Any]) -> "How":
        return cls(**stored | {"more_meta": tuple(stored.get("more_meta", ()))})

    def written(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def columns(self) -> Columns:
        return Columns(self.prompt, self.answer or None, self.follow_ups, self.domain, self.meta, self.answer_key, self.more_meta)


@dataclass(frozen=True)
class Look:
    """The first rows of a file as tasks or as bad lines, and its columns; or why it cannot be read at all."""

    columns: Sequence[str] = ()
    rows: Sequence[TaskRow | BadLine] = ()
    refusal: str = ""

    @property
    def bad(self) -> list[BadLine]:
        return [row for row in self.rows if isinstance(row, BadLine)]


def look(preview: Mapping[str, Any], how: How) -> Look:
    """Return the previewed rows as these columns make them tasks; nothing of the file is read."""
    records = [_record(*row) for row in preview.get("rows", ())]
    known = {name: Encoded(name, width, height, b"") for name, (width, height) in preview.get("pictures", {}).items()}
    columns = preview.get("columns", ())
    return Look(columns, list(read(records, how.columns, _refused_picture, known)), preview.get("refusal", ""))


def guessed(preview: Mapping[str, Any], how: How) -> How:
    """Return these choices with the columns that fit the file, by their names."""
    columns = preview.get("columns", ())
    prompt = next((name for name in PROMPTS if name in columns), Columns.prompt)
    answer = next((name for name in ANSWERS if name in columns), "")
    usual = {"domain": Columns.domain, "follow_ups": Columns.follow_ups, "meta": Columns.meta}
    more = {field: column if column in columns else "" for field, column in usual.items()}
    return replace(how, prompt=prompt, answer=answer, more_meta=(), **more)


def _record(number: int, fields: dict[str, Any] | None, reason: str, excerpt: str) -> Record | BadLine:
    return BadLine(number, reason, excerpt) if fields is None else Record(number, fields, excerpt.encode())


def _refused_picture(why: str) -> bytes:
    """The preview has the reason in the place of a picture that could not be decoded."""
    raise BadPicture(why)
