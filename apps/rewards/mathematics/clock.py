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
