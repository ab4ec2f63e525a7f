"""How a sent file is to be read, and its first rows read so."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from apps.tasksets.duplicates import KEEP
from apps.tasksets.reading import Columns, read
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources import SUFFIXES, folder, opened
from apps.tasksets.sources.records import BadLine, NotReadable, Record

LOOKED_AT = 20  # rows
MOST_COLUMNS = 200  # that are offered
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


def look(path: Path, how: How) -> Look:
    """Reads no more than the first rows."""
    try:
        records = list(islice(opened(path, how.format, how.split), LOOKED_AT))
    except NotReadable as error:
        return Look(refusal=str(error))
    except OSError as error:
        return Look(refusal=f"the file cannot be opened: {error.strerror}")
    columns = dict.fromkeys(name for record in records if isinstance(record, Record) for name in record.fields)
    return Look(list(columns)[:MOST_COLUMNS], list(read(records, how.columns)))


def splits_of(path: Path) -> list[str]:
    """Those of a folder that has several by name; of a file none."""
    try:
        return folder.splits_of(path, SUFFIXES) if path.is_dir() else []
    except NotReadable:  # `look` says so
        return []


def guessed(path: Path, format: str = "auto", split: str = "") -> How:
    """The choices that fit a file or folder by its columns' names."""
    how = How(format, split)
    columns = look(path, how).columns
    prompt = next((name for name in PROMPTS if name in columns), how.prompt)
    answer = next((name for name in ANSWERS if name in columns), "")
    more = {name: getattr(how, name) if getattr(how, name) in columns else "" for name in ("domain", "follow_ups", "meta")}
    return replace(how, prompt=prompt, answer=answer, **more)
