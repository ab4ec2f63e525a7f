"""Read a time of day: 10:30 a.m. is no ratio, and is neither 2:06 a.m. nor 10:30 p.m."""

import re

MAX_TIME_LENGTH = 60
_TEXT = re.compile(r"\\text\s?\{([^{}]*)\}")
_TIME = re.compile(
    r"(?:at )?(\d{1,2})(?:(?: ?: ?| ?\{:\} ?)([0-5]\d) ?| )([ap]) ?\.? ?m(?: ?\.)?", re.I
)


def time_of_day(text: str) -> str | None:
    """Return a time with a.m. or p.m. as "15:45 of the day"; None for anything else."""
    if len(text) > MAX_TIME_LENGTH:
        return None
    match = _TIME.fullmatch(" ".join(_TEXT.sub(r" \1 ", text).split()))
    if match is None or not 1 <= int(match[1]) <= 12:
        return None
    hour = int(match[1]) % 12 + (12 if match[3].lower() == "p" else 0)
    return f"{hour:02d}:{match[2] or '00'} of the day"


def is_same_time(written: str, time: str) -> bool:
    """Tell whether hours and minutes of an afternoon, 15:45, are the time 3:45 p.m."""
    match = re.fullmatch(r"(1[3-9]|2[0-3]):([0-5]\d)", written)
    return match is not None and time == f"{match[0]} of the day"
