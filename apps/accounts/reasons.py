"""Why somebody did something, as it stands in the audit log: one line of plain text."""

import unicodedata

LONGEST_REASON = 300
# Controls (NUL, tabs, ends of lines), halves of characters, and Unicode's own ends of lines and paragraphs.
NOT_IN_A_LINE = ("Cc", "Cs", "Zl", "Zp")


class NotAReason(ValueError):
    """The message says what is right."""


def reason_of(text: str) -> str:
    """The words without spaces around them, empty where there are none."""
    words = text.strip()
    if len(words) > LONGEST_REASON:
        raise NotAReason(f"A reason has at most {LONGEST_REASON} characters; these are {len(words)}.")
    if any(unicodedata.category(sign) in NOT_IN_A_LINE for sign in words):
        raise NotAReason("A reason is one line of plain text, without ends of lines, tabs or other control characters.")
    return words
