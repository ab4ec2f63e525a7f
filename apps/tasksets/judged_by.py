"""Scorers that a task names for itself: `meta.judged_by`, a list. Without it, its domain says which of a run's judge it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

KEY = "judged_by"
LONGEST_NAME = 60


class BadJudges(ValueError):
    """What a task says of who judges it cannot be read; the message begins with the field."""


class Kind(NamedTuple):
    """What of a task decides who judges it: the field it is from, and the scorers that it names; empty: those of its field."""

    domain: str = ""
    judged_by: tuple[str, ...] = ()


def kind_of(domain: str, said: Any) -> Kind:
    """`said`: what its meta has under `judged_by`; what is no list of names says nothing, and no run of today begins with it."""
    return Kind(domain, tuple(said) if _is_names(said) else ())


def named_in(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """The scorers that the task names; none where it leaves that to its domain. Raises BadJudges."""
    said = meta.get(KEY)
    if said is None:
        return ()
    if not _is_names(said):
        raise BadJudges(f"meta.{KEY}: must be a list of one or more different names of scorers")
    return tuple(said)


def _is_names(said: Any) -> bool:
    if not isinstance(said, list) or not said:
        return False
    return all(isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in said) and len(set(said)) == len(said)
