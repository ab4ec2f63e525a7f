"""Strict parsing of texts and numbers from browsers into storable values.

Characters that cannot be stored are made visible as in model output
(`apps.rollouts.models.storable_output`): NUL becomes its symbol, a lone surrogate the replacement
mark. Controls of writing direction are kept, since honest Arabic and Hebrew text needs them; they
cannot reorder text outside their own element, because every page shows such text in an element of
its own (`<bdi>`, or `unicode-bidi: isolate`). Line ends become one newline each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

MAX_TEXT_LENGTH = 20_000  # characters of a critique or a rewritten text


def words(
    raw: object,
    field: str,
    problems: dict[str, str],
    *,
    max_length: int = MAX_TEXT_LENGTH,
    needed: bool = False,
) -> str:
    """Return `raw` as storable text of up to `max_length` characters; with `needed`, not empty."""
    if not isinstance(raw, str):
        problems[field] = "must be text"
        return ""
    text = storable(raw)
    if len(text) > max_length:
        problems[field] = f"has {len(text):,} characters; the maximum is {max_length:,}"
    elif needed and not text.strip():
        problems[field] = "must not be empty"
    return text


def storable(text: str) -> str:
    """Return the text as Postgres can store it, with one newline per line end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return lines.replace("\x00", "\u2400").encode("utf-8", "replace").decode("utf-8")


def whole(raw: object, field: str, problems: dict[str, str], low: int, high: int) -> int:
    """Return `raw` as an integer of `low` to `high`.

    Booleans, fractions and strings are refused.
    """
    if type(raw) is not int or not low <= raw <= high:
        problems[field] = f"must be a whole number from {low} to {high}"
        return low
    return raw


def one_of(raw: object, field: str, problems: dict[str, str], shown: Sequence[int]) -> int:
    """Return `raw` as the id of a rollout that was shown."""
    if type(raw) is not int or raw not in shown:
        problems[field] = f"must be one of the rollouts shown: {', '.join(map(str, shown))}"
        return -1
    return raw


def required(raw: Mapping[str, Any], field: str, problems: dict[str, str], right: str) -> bool:
    """Tell whether the answer has this field; `right` says what it must hold."""
    if field not in raw:
        problems[field] = f"is missing: {right}"
    return field in raw
