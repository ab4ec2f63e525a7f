"""Words and numbers as people's browsers send them: read strictly, kept storable.

Characters that cannot be stored are made visible as in model output (`apps.rollouts.models.shown`): NUL becomes its symbol, a lone
surrogate the replacement mark. Controls of writing direction are kept, since honest Arabic and Hebrew text needs them;
they can turn no word around outside their own element, because whoever shows words puts them in an element of their own
(`<bdi>`, or `unicode-bidi: isolate`). Line ends become one newline each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 20_000  # characters of a critique or a rewritten text


def words(raw: object, field: str, problems: dict[str, str], *, longest: int = LONGEST, needed: bool = False) -> str:
    """`raw` as storable text of at most `longest` characters; with `needed`, it must say something."""
    if not isinstance(raw, str):
        problems[field] = "must be text"
        return ""
    text = storable(raw)
    if len(text) > longest:
        problems[field] = f"has {len(text):,} characters; at most {longest:,} can be taken"
    elif needed and not text.strip():
        problems[field] = "must say something"
    return text


def storable(text: str) -> str:
    """The text as Postgres can keep it, with one newline per line end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return lines.replace("\x00", "\u2400").encode("utf-8", "replace").decode("utf-8")


def whole(raw: object, field: str, problems: dict[str, str], low: int, high: int) -> int:
    """`raw` as a whole number of `low` to `high`: no truth value, no fraction, no digits in quotes."""
    if type(raw) is not int or not low <= raw <= high:
        problems[field] = f"must be a whole number from {low} to {high}"
        return low
    return raw


def one_of(raw: object, field: str, problems: dict[str, str], shown: Sequence[int]) -> int:
    """`raw` as the id of a rollout that was shown."""
    if type(raw) is not int or raw not in shown:
        problems[field] = f"must be one of the rollouts shown: {', '.join(map(str, shown))}"
        return -1
    return raw


def required(raw: Mapping[str, Any], field: str, problems: dict[str, str], right: str) -> bool:
    """Whether the answer has this field; `right` says what it should hold."""
    if field not in raw:
        problems[field] = f"is missing: {right}"
    return field in raw
