"""Pays an exact structure of tags, as <think>…</think><answer>…</answer>; each tag once, or nothing is paid."""

import re

from pydantic import Field, field_validator

from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

MOST_TAGS = 20


class Options(ScorerOptions):
    tags: tuple[str, ...] = Field(
        ("think", "answer"), min_length=1, max_length=MOST_TAGS, description="Names of the tags, in order."
    )
    in_order: bool = Field(True, description="The tags must come in this order.")
    nothing_outside: bool = Field(True, description="Nothing but blanks may stand outside of the tags.")
    not_empty: bool = Field(True, description="Something must stand in each tag.")

    @field_validator("tags")
    @classmethod
    def _names(cls, tags: tuple[str, ...]) -> tuple[str, ...]:
        bad = [tag for tag in tags if not re.fullmatch(r"[A-Za-z][\w-]{0,40}", tag)]
        if bad or len(set(tags)) < len(tags):
            raise ValueError(f"{bad[0]!r} is no name of a tag" if bad else "a tag is named twice")
        return tags


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """1 where every tag is opened and closed exactly once, none within another; 0 otherwise. What stands inside is not judged."""
    text = rollout.text
    for tag in options.tags:
        opened, closed = text.count(f"<{tag}>"), text.count(f"</{tag}>")
        if (opened, closed) != (1, 1):
            return Verdict(0.0, f"<{tag}> is opened {opened} times and closed {closed} times, not once")
    spans = {tag: (text.index(f"<{tag}>"), text.index(f"</{tag}>") + len(tag) + 3) for tag in options.tags}
    problem = _problem(text, spans, options)
    return Verdict(0.0, problem) if problem else Verdict(1.0, "the tags are as they should be")


def _problem(text: str, spans: dict[str, tuple[int, int]], options: Options) -> str:
    """What is wrong with where the tags stand; empty where nothing is."""
    placed = sorted(spans.items(), key=lambda item: item[1])
    if options.in_order and [tag for tag, _ in placed] != list(options.tags):
        return f"the tags are not in the order {', '.join(options.tags)}"
    end, outside = 0, []
    for tag, (start, stop) in placed:
        if start < end or stop < start:
            return f"<{tag}> is not beside the other tags, or closed before it is opened"
        if options.not_empty and not text[start + len(tag) + 2 : stop - len(tag) - 3].strip():
            return f"<{tag}> is empty"
        outside.append(text[end:start])
        end = stop
    if options.nothing_outside and "".join([*outside, text[end:]]).strip():
        return "something stands outside of the tags"
    return ""
