"""Paraphrased tasks with their old answers: what may be rewritten, and checks of the result."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Task
from apps.tasksets.overlap import normalise_words
from apps.tasksets.rows import TaskRow

MAX_ANSWER_LENGTH = 3
SPARE = 200  # times as long as what it rewrites, and characters beyond that
MAX_LEAVES = 200  # parts of an answer that are looked for in the new words
MAX_LEAF_LENGTH = 200  # characters; what is longer is no answer that slips into a question
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_MARK = re.compile(
    r"</?[A-Za-z][A-Za-z0-9_-]*>|\\[A-Za-z]+"
)  # <answer>, \boxed: what a scorer finds the answer by


def why_not_paraphrasable(task: Task) -> str:
    """Return why a task cannot be paraphrased; "" if it can."""
    if task.follow_ups or sum(message["role"] != "system" for message in task.prompt) != 1:
        return "is a conversation whose messages refer to each other"
    if list_pictures(task.prompt) or not isinstance(task.prompt[-1]["content"], str):
        return "contains an image"
    return "" if task.question.strip() else "asks nothing"


def why_refused(task: Task, text: str) -> str:
    """Return why these words do not ask the same as the task; "" if no reason is found.

    This is no proof that they do: numbers, marks, length and the answer are compared, not the
    meaning.
    """
    before = task.question
    text = text.strip()
    if not text:
        return "nothing was said"
    if normalise_words(text) == normalise_words(before):
        return "says the same words"
    if len(text) > MAX_ANSWER_LENGTH * len(before) + SPARE:
        return f"is too long: {len(text):,} characters instead of {len(before):,}"
    if lost_text := _first_missing(_numbers(before), _numbers(text)):
        return f"loses a number: {lost_text}"
    if new_text := _first_missing(Counter(set(_numbers(text))), Counter(set(_numbers(before)))):
        return f"contains a number that the original does not have: {new_text}"
    if lost_text := _first_missing(
        Counter(set(_MARK.findall(before))), Counter(_MARK.findall(text))
    ):
        return f"loses a mark: {lost_text}"
    leaked = next(
        (
            leaf
            for leaf in _leaves(task.answer)
            if _contains_words(text, leaf) and not _contains_words(before, leaf)
        ),
        None,
    )
    return "gives the answer away" if leaked is not None else ""


def rewritten(task: Task, text: str) -> TaskRow:
    """Return the task with these words in the place of its last message."""
    prompt = [*task.prompt[:-1], {**task.prompt[-1], "content": text.strip()}]
    meta = {**task.meta, "parents": [f"{task.taskset.slug}#{task.index}"]}
    return TaskRow(prompt, task.answer, meta, domain=task.domain, parent=task.pk)


def _numbers(text: str) -> Counter[str]:
    return Counter(_NUMBER.findall(_THOUSANDS.sub("", text)))


def _first_missing(expected: Counter[str], actual: Counter[str]) -> str:
    return next(iter(expected - actual), "")


def _leaves(answer: Any) -> Iterator[str]:
    """Yield the texts and numbers that an answer is made of, the first ones."""
    pending = [answer]
    leaf_count = 0
    while pending and leaf_count < MAX_LEAVES:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, str | int | float) and not isinstance(part, bool):
            leaf_count += 1
            if 0 < len(leaf := str(part).strip()) <= MAX_LEAF_LENGTH:
                yield leaf


def _contains_words(text: str, leaf: str) -> bool:
    """Tell whether the words stand in the text, as words of their own."""
    return re.search(rf"(?<!\w){re.escape(leaf.casefold())}(?!\w)", text.casefold()) is not None
