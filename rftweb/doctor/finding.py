"""One line of the doctor's report."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity: ok; warn: works, but look at it; fail: something will not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """The result of a check; `mend` says how to fix it, for everything but ok."""

    subject: str
    level: Level
    text: str
    mend: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(subject, Level.OK, text)


def warn(subject: str, text: str, mend: str) -> Finding:
    return Finding(subject, Level.WARN, text, mend)


def failed_finding(subject: str, text: str, mend: str) -> Finding:
    return Finding(subject, Level.FAIL, text, mend)
