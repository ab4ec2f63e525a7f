"""One line of the doctor's report."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """ok: as it should be. warn: works, but look at it. fail: something will not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and for everything but ok: how to mend it."""

    subject: str
    level: Level
    text: str
    mend: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(subject, Level.OK, text)


def warn(subject: str, text: str, mend: str) -> Finding:
    return Finding(subject, Level.WARN, text, mend)


def fail(subject: str, text: str, mend: str) -> Finding:
    return Finding(subject, Level.FAIL, text, mend)
