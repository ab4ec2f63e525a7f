"""Reasons that people give for an action in the audit log: one line of plain text."""

import unicodedata

MAX_REASON_LENGTH = 300
# Control characters (NUL, tabs, line ends), surrogate halves, and Unicode's own line and paragraph
# separators.
NOT_IN_A_LINE = ("Cc", "Cs", "Zl", "Zp")


class NotAReason(ValueError):
    """Raised for an unacceptable reason; the message says what is right."""


def check_reason(text: str) -> str:
    """Return the text without surrounding spaces; raise NotAReason if it is not one plain line."""
    line = text.strip()
    if len(line) > MAX_REASON_LENGTH:
        raise NotAReason(
            f"A reason can have {MAX_REASON_LENGTH} characters; this one has {len(line)}."
        )
    if any(unicodedata.category(sign) in NOT_IN_A_LINE for sign in line):
        raise NotAReason(
            "A reason must be one line of plain text, without line breaks, tabs or other control"
            " characters."
        )
    return line
