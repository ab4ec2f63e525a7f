"""Layouts of preferences that stand in lists: TL;DR's summaries, RewardBench 2."""

from typing import cast

from apps.tasksets.layouts.answers import QUESTIONS, read_question
from apps.tasksets.layouts.contract import (
    PREFERENCES,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
    is_objects,
    is_texts,
    parse_number,
    require_text,
)
from apps.tasksets.layouts.conversations import decoded

MAX_PAIRS = 64  # of one row
SUMMARIZE = "Summarize this text."


def _is_summaries(row: Row) -> bool:
    summaries = decoded(row.get("summaries"))
    is_shown = isinstance(decoded(row.get("info")), dict) and "choice" in row
    return is_shown and is_objects(summaries) and all("text" in summary for summary in summaries)


def _summaries(row: Row, taking: RowReading) -> Row:
    """Take two summaries of a post or an article, and the number of the better one."""
    info = cast("Row", decoded(row["info"]))  # by `_is_summaries`
    summaries = cast("list[Row]", decoded(row["summaries"]))
    name = first_text(info, ("post", "article"))
    if not name or len(summaries) != 2:
        raise NotThisLayout("info.post or info.article and two summaries are needed")
    better = parse_number(row["choice"])
    if better not in (0, 1):
        raise NotThisLayout("choice: must be 0 or 1, the number of the better summary")
    taking.dropped.update(
        f"info.{key}" for key, value in info.items() if value and key not in (name, "title")
    )
    title = info.get("title")
    parts = [SUMMARIZE, title if isinstance(title, str) else "", require_text(info, name)]
    better = int(better)
    return {
        "prompt": "\n\n".join(part.strip() for part in parts if part.strip()),
        "chosen": require_text(summaries[better], "text").strip(),
        "rejected": require_text(summaries[1 - better], "text").strip(),
    }


def _has_answer_lists(row: Row) -> bool:
    sides = (row.get("chosen"), row.get("rejected"))
    is_asked = bool(first_text(row, QUESTIONS))
    return is_asked and all(isinstance(side, list) and is_texts(side) for side in sides)


def _answer_lists(row: Row, taking: RowReading) -> list[Row]:
    """Take every better answer with every worse one."""
    prompt = read_question(row)
    chosen = row["chosen"]
    rejected = row["rejected"]
    pairs = [(better, worse) for better in chosen for worse in rejected]
    if not all(text.strip() for text in (*chosen, *rejected)):
        raise NotThisLayout("chosen and rejected: every answer must be text that is not empty")
    if len(pairs) > MAX_PAIRS:
        taking.dropped.add(f"pairs of chosen and rejected beyond {MAX_PAIRS}")
    return [
        {"prompt": prompt, "chosen": better, "rejected": worse}
        for better, worse in pairs[:MAX_PAIRS]
    ]


LAYOUTS = (
    Layout(
        "summaries",
        "OpenAI's comparisons of summaries: info, summaries and choice",
        _is_summaries,
        {PREFERENCES: _summaries},
    ),
    Layout(
        "several-answers",
        "RewardBench 2: prompt, and lists of chosen and rejected answers",
        _has_answer_lists,
        {PREFERENCES: _answer_lists},
    ),
)
