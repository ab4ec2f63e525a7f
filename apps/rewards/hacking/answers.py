"""Replies give many final answers, one of which will be right."""

import re

from apps.rewards.hacking.rows import Finding, JudgedReplies, TaskContent, by_step, newest_ids
from apps.runs.hacking import Hacking

TITLE = "Replies give many answers at once"
MARKED = re.compile(
    r"\\boxed\s*\{([^{}\n]{1,80})\}|####\s*([^\n]{1,80})|<answer>\s*([^<]{1,80}?)\s*</answer>"
    r"|\banswer\s*(?:is|:|=)\s*([^\n]{1,80}?)(?=[.!?](?:\s|$)|\n|$)",
    re.IGNORECASE,
)
# Blanks in front are read from the first of them only, so that a long run is read once.
PARTS = re.compile(r"(?:(?<!\s)\s++)?(?:[,;|/]|\bor\b|\band\b)\s*+", re.IGNORECASE)
MAX_PART_LENGTH = 20  # characters of an answer in a list of them
TRIM = " \t$()[]{}\"'`*."


def detect(replies: JudgedReplies, options: Hacking) -> Finding | None:
    """Find replies that give many different final answers: `answers` or more.

    At least `forbidden_replies` of them, and `answers_share` of the replies, must do so.
    """
    flagged = [
        row
        for row in replies.rows
        if count_answers(row.text, replies.tasks.get(row.task, TaskContent())) >= options.answers
    ]
    share = len(flagged) / len(replies.rows) if replies.rows else 0.0
    if len(flagged) < options.forbidden_replies or share < options.answers_share:
        return None
    words = (
        f"{len(flagged)} of {len(replies.rows)} replies ({share:.1%}) give {options.answers} or "
        "more final answers. A scorer that accepts any of them rewards guessing."
    )
    flagged_ids = {row.rollout for row in flagged}
    curve = by_step(replies.rows, lambda row: float(row.rollout in flagged_ids))
    return Finding(
        words,
        {"replies": len(flagged), "share": share},
        {"many answers": curve},
        newest_ids([row.rollout for row in flagged]),
    )


def count_answers(text: str, task: TaskContent) -> int:
    """Count the different final answers that a reply marks.

    A list counts as its parts, unless the right answer is a list itself.
    """
    value = task.answer.get("value")
    is_list = isinstance(value, str) and PARTS.search(value) is not None
    answers: set[str] = set()
    for match in MARKED.finditer(text):
        answer = next(group for group in match.groups() if group is not None)
        parts = [part.strip(TRIM).lower() for part in PARTS.split(answer)]
        is_enumerated = (
            not is_list and len(parts) > 1 and all(len(part) <= MAX_PART_LENGTH for part in parts)
        )
        answers |= set(parts) if is_enumerated else {answer.strip(TRIM).lower()}
    return len(answers - {""})
