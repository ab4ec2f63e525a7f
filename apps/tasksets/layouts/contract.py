"""Contract of a layout: how it recognises rows of one kind of data set, and reads our columns."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeGuard

Row = dict[str, Any]
NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
MAX_DROPPED = 200  # names of fields that are listed as not taken
TASKS = "tasks"
DEMONSTRATIONS = "demonstrations"
PREFERENCES = "preferences"
THUMBS = "thumbs"
KINDS = (TASKS, DEMONSTRATIONS, PREFERENCES, THUMBS)


class NotThisLayout(ValueError):
    """Raised for a row with a layout's fields but another content; names the field."""


class NotGood(NotThisLayout):
    """Raised for a row whose answer people found bad, or did not find good.

    The message names the field.
    """


class TrackedRow(dict):
    """A row that remembers which of its fields were read."""

    def __init__(self, fields: Row) -> None:
        super().__init__(fields)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


@dataclass
class RowReading:
    """State of reading one row.

    `min_rating`: the rating from which on an answer is good, if the file rates its answers on a
    scale of its own. `dropped`: the row's fields that are not taken, in the words of a list.
    """

    min_rating: float | None = None
    dropped: set[str] = field(default_factory=set)


def count_dropped(counts: Counter[str], names: Set[str]) -> None:
    """Count the fields of one row that are not taken; of a file with too many, the first ones."""
    for name in sorted(names):
        if name in counts or len(counts) < MAX_DROPPED:
            counts[name] += 1


@dataclass(frozen=True)
class Gathering:
    """How successive rows of a file become one row of another layout.

    `key`: rows that have the same one belong together. `join`: these rows as one row of the layout
    `into`; it raises NotThisLayout.
    """

    key: Callable[[Row], Hashable]
    join: Callable[[Sequence[Row]], Row]
    into: str


# What a row says, in our columns; several of them where a row holds several answers.
Reader = Callable[[Row, RowReading], Row | list[Row]]


@dataclass(frozen=True)
class Layout:
    """One layout of rows, under the name of the data set or library that it is known by.

    `matches` looks at the fields of a row and their types. `reads` says, for each kind of thing
    that the row can become, how; it raises NotThisLayout. What it reads of a row is taken; fields
    that it does not read are listed as not taken, but for those of `apps.tasksets.layouts.context`,
    which every layout takes. `judges_itself`: its reader knows which answers people found bad, so
    fields of other layouts say nothing. `gathering`: the file has one thing in several rows.
    """

    name: str
    title: str
    matches: Callable[[Row], bool]
    reads: Mapping[str, Reader]
    judges_itself: bool = False
    gathering: Gathering | None = None


def has(row: Row, *names: str) -> bool:
    """Return whether the row has a value in each of these fields."""
    return all(row.get(name) is not None for name in names)


def first_text(row: Row, names: tuple[str, ...]) -> str:
    """Return the first of these fields in which the row has a value, or ""."""
    return next((name for name in names if row.get(name) is not None), "")


def pass_over(row: Row, *names: str) -> None:
    """Count these fields as read: other fields hold the same."""
    for name in names:
        row.get(name)


def require_text(row: Row, name: str) -> str:
    """Return the text in this field. Raises NotThisLayout."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise NotThisLayout(f"{name}: must be text that is not empty")
    return value


def is_finite_number(value: object) -> TypeGuard[float]:
    return type(value) in (int, float)


def parse_number(value: object) -> float | None:
    """Return a number, also one that is written as a text, as all cells of CSV are; None for
    anything else."""
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        return float(value)
    return float(value) if is_finite_number(value) else None


def parse_rating(row: Row, name: str) -> float:
    """Return the number in this field, where the layout matches only rows that have one."""
    number = parse_number(row[name])
    assert number is not None
    return number


def is_whole(value: object) -> bool:
    """Return whether the value is a whole number, also one that is written as a text."""
    number = parse_number(value)
    return number is not None and number == int(number)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Return whether the value is a list of texts, and not an empty one."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def is_objects(value: object) -> TypeGuard[list[Row]]:
    """Return whether the value is a list of objects, and not an empty one."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
