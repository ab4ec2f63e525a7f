"""Rewards a page by its visual similarity to the target, relative to an empty page.

The page is the reply's last block of HTML, else its last whole <html> element; plain elements and
styles are rendered, and what is more is refused by name (docs/pictures.md). On a machine without a
renderer there is no value.
"""

import re

from pydantic import Field

from apps.rewards.code.blocks import closed_blocks
from apps.rewards.final_answer import after_thinking
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict
from apps.rewards.svg_pictures import likeness
from apps.tasksets.pages import (
    HEIGHT,
    MAX_SIDE,
    MIN_SIDE,
    WIDTH,
    NoPage,
    NoRenderer,
    render_page,
    require_renderer,
)

VERSION = 2
SECONDS = 40.0  # two pages of the renderer's own limit, on a machine that does more than this
MAX_REPLY_LENGTH = 200_000  # characters of a reply that are looked through
FENCES = frozenset({"html", "htm", "xhtml"})
OPENED = re.compile(r"<html[\s>]", re.IGNORECASE)
CLOSED = re.compile(r"</html\s{0,9}>", re.IGNORECASE)


class Options(ScorerOptions):
    width: int = Field(
        WIDTH, ge=MIN_SIDE, le=MAX_SIDE, description="Width of the window in pixels."
    )
    height: int = Field(
        HEIGHT,
        ge=MIN_SIDE,
        le=MAX_SIDE,
        description="Height of the window in pixels. Content below it is ignored.",
    )
    min_similarity: float = Field(
        0.0, ge=0, le=1, description="Similarity below this value gets no reward."
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Score the likeness of the reply's page to `answer["html"]`, both rendered.

    1 is the same, 0 no better than one even colour.
    """
    expected = task.answer.get("html", task.answer.get("value"))
    if not isinstance(expected, str):
        return Verdict(None, "the task has no reference page")
    try:
        require_renderer()
        picture = render_page(expected, options.width, options.height)
    except NoRenderer as missing:
        return Verdict(None, str(missing)[:300])
    except NoPage as error:
        return Verdict(None, f"the task's page cannot be rendered: {error}"[:300])
    try:
        page = html_in(after_thinking(rollout.text))
        alike = likeness(picture, render_page(page, options.width, options.height))
    except NoPage as error:
        return Verdict(0.0, str(error)[:300])
    value = alike if alike >= options.min_similarity else 0.0
    return Verdict(
        value,
        f"similarity to the page {alike:.2f}",
        {"likeness": round(alike, 6), "characters": len(page)},
    )


def html_in(text: str) -> str:
    """Return the page in a reply. Raises NoPage."""
    if len(text) > MAX_REPLY_LENGTH:
        raise NoPage(f"the reply is longer than {MAX_REPLY_LENGTH} characters")
    blocks = [block.code for block in closed_blocks(text) if block.fence.lower() in FENCES]
    if blocks:
        return blocks[-1]
    starts = [match.start() for match in OPENED.finditer(text)]
    end = CLOSED.search(text, starts[-1]) if starts else None
    if end is None:
        raise NoPage("no HTML code block and no complete <html> element")
    return text[starts[-1] : end.end()]
