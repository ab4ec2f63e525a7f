"""Rewards an exact tag structure such as <think>…</think><answer>…</answer>, each tag once."""

import re
import unicodedata

from pydantic import Field, field_validator

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

MAX_TAGS = 20
INVISIBLE = ("Cf", "Cc", "Cn", "Co", "Mn", "Me")
BLANK_LETTERS = "\u115f\u1160\u3164\uffa0\u2800"
VERSION = 4
# In thoughts the other tags may be named.
THOUGHTS = frozenset(("think", "thinking", "thought", "thoughts", "reasoning", "scratchpad"))


class Options(ScorerOptions):
    tags: tuple[str, ...] = Field(
        ("think", "answer"),
        min_length=1,
        max_length=MAX_TAGS,
        description="Names of the tags, in order.",
    )
    in_order: bool = Field(True, description="Require this order of the tags.")
    nothing_outside: bool = Field(True, description="Allow only whitespace outside the tags.")
    not_empty: bool = Field(True, description="Require text in each tag.")

    opened: bool | None = Field(
        None,
        description=(
            "Whether the chat template already writes the first opening tag. Null: accept both."
        ),
    )

    @field_validator("tags")
    @classmethod
    def _names(cls, tags: tuple[str, ...]) -> tuple[str, ...]:
        bad = [tag for tag in tags if not re.fullmatch(r"[A-Za-z][\w-]{0,40}", tag)]
        if bad or len(set(tags)) < len(tags):
            raise ValueError(
                f"{bad[0]!r} is not a valid tag name" if bad else "a tag is named twice"
            )
        return tags


class Misformed(ValueError):
    """Raised for a text without the wanted structure; the message says why."""


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 where every tag is opened and closed exactly once, none within another; 0 otherwise.

    What stands inside is not judged; in thoughts the other tags may be named.
    """
    try:
        _check(rollout.text, options)
    except Misformed as problem:
        return Verdict(0.0, str(problem))
    return Verdict(1.0, "all tags are correct")


def _check(text: str, options: Options) -> None:
    """Check the tags of the text from its start. Raises Misformed."""
    remaining_tags = list(options.tags)
    place = 0
    outside = []
    if _begins_inside(text, remaining_tags[0], options.opened):
        text = f"<{remaining_tags[0]}>{text}"
    while remaining_tags:
        tag, start = _next(text, place, remaining_tags)
        if options.in_order and tag != remaining_tags[0]:
            raise Misformed(f"the tags are not in the order {', '.join(options.tags)}")
        outside.append(text[place:start])
        inside, place = _inside(text, tag, start)
        if options.not_empty and not _has_text(inside):
            raise Misformed(f"<{tag}> is empty")
        _check_inside(inside, tag, options)
        remaining_tags.remove(tag)
    outside.append(text[place:])
    if stray := next((tag for tag in options.tags if _has_tag("".join(outside), tag)), None):
        raise Misformed(f"<{stray}> appears more than once or is not closed")
    if options.nothing_outside and _has_text("".join(outside)):
        raise Misformed("text outside the tags")


def _has_text(text: str) -> bool:
    """Tell whether the text has visible characters; joiners, marks and fillers are not."""
    return any(
        not sign.isspace()
        and unicodedata.category(sign) not in INVISIBLE
        and sign not in BLANK_LETTERS
        for sign in text
    )


def _begins_inside(text: str, first: str, opened: bool | None) -> bool:
    """Tell whether the template has opened the first tag: it is closed here, and never opened."""
    if opened is not None:
        return opened
    before, closed, _ = text.partition(f"</{first}>")
    is_misspelled = re.search(rf"<\s{{0,3}}/?\s{{0,3}}{re.escape(first)}\b", before, re.I)
    return bool(closed) and is_misspelled is None and first in THOUGHTS


def _next(text: str, place: int, remaining_tags: list[str]) -> tuple[str, int]:
    """Return the first tag opened after `place`, and where. Raises Misformed."""
    starts = {tag: text.find(f"<{tag}>", place) for tag in remaining_tags}
    openings = [(start, tag) for tag, start in starts.items() if start >= 0]
    if not openings:
        raise Misformed(f"<{remaining_tags[0]}> is missing")
    start, tag = min(openings)
    return tag, start


def _inside(text: str, tag: str, start: int) -> tuple[str, int]:
    """Return the contents of the tag, and where the tag ends. Raises Misformed."""
    begin = start + len(tag) + 2
    end = text.find(f"</{tag}>", begin)
    if end < 0:
        raise Misformed(f"<{tag}> is not closed")
    return text[begin:end], end + len(tag) + 3


def _check_inside(inside: str, tag: str, options: Options) -> None:
    """Refuse tags inside tags; thoughts may name other tags. Raises Misformed."""
    banned = (tag,) if tag in THOUGHTS else options.tags
    if nested_tag := next(
        (banned_tag for banned_tag in banned if _has_tag(inside, banned_tag)), None
    ):
        raise Misformed(f"<{nested_tag}> is inside <{tag}>")


def _has_tag(text: str, tag: str) -> bool:
    return f"<{tag}>" in text or f"</{tag}>" in text
