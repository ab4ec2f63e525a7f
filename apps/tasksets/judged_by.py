"""Scorers that a task names for itself: `meta.judged_by`, a list.

Without it, its domain says which of a run's judge it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

KEY = "judged_by"
MAX_NAME_LENGTH = 60


class BadJudges(ValueError):
    """Unreadable choice of scorers in a task; the message begins with the field."""


class Kind(NamedTuple):
    """Domain of a task, and the scorers that it names; if empty, those of its domain judge it."""

    domain: str = ""
    judged_by: tuple[str, ...] = ()


def find_judged_kind(domain: str, value: Any) -> Kind:
    """Return the kind of a task with this domain and `value`, its meta under `judged_by`.

    A value that is no list of names is ignored; no run of today begins with one.
    """
    return Kind(domain, tuple(value) if _is_names(value) else ())


def named_in(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scorers that the task names; none where it leaves that to its domain.

    Raises BadJudges.
    """
    value = meta.get(KEY)
    if value is None:
        return ()
    if not _is_names(value):
        raise BadJudges(
            f"meta.{KEY}: must be a list of at least one scorer name, without duplicates"
        )
    return tuple(value)


def _is_names(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(name, str) and 0 < len(name) <= MAX_NAME_LENGTH for name in value
    ) and len(set(value)) == len(value)
