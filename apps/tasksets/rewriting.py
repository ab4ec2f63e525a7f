"""Tasks in other words, with the answers that they had: what may be rewritten, and which rewrites still ask the same."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from apps.tasksets.messages import pictures_of
from apps.tasksets.models import Task
from apps.tasksets.overlap import normalised
from apps.tasksets.rows import TaskRow

LONGEST, SPARE = 3, 200  # times as long as what it rewrites, and characters beyond that
MOST_LEAVES = 200  # parts of an answer that are looked for in the new words
LONGEST_LEAF = 200  # characters; what is longer is no answer that slips into a question
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_MARK = re.compile(r"</?[A-Za-z][A-Za-z0-9_-]*>|\\[A-Za-z]+")  # <answer>, \boxed: what a scorer finds the answer by


def why_not(task: Task) -> str:
    """Why a task cannot be said in other words; empty where it can."""
    if task.follow_ups or sum(message["role"] != "system" for message in task.prompt) != 1:
        return "is a conversation, whose messages answer each other's words"
    if pictures_of(task.prompt) or not isinstance(task.prompt[-1]["content"], str):
        return "shows a picture, and is not asked in words alone"
    return "" if task.question.strip() else "asks nothing"


def why_refused(task: Task, said: str) -> str:
    """Why these words do not ask what the task asks; empty where nothing speaks against them.

    No proof that they do: numbers, marks, length and the answer are looked at, not what the words mean.
    """
    before, said = task.question, said.strip()
    if not said:
        return "nothing was said"
    if normalised(said) == normalised(before):
        return "says the same words"
    if len(said) > LONGEST * len(before) + SPARE:
        return f"is too long: {len(said):,} characters for {len(before):,}"
    if lost := _missing(_numbers(before), _numbers(said)):
        return f"loses a number: {lost}"
    if new := _missing(Counter(set(_numbers(said))), Counter(set(_numbers(before)))):
        return f"says a number of its own: {new}"
    if lost := _missing(Counter(set(_MARK.findall(before))), Counter(_MARK.findall(said))):
        return f"loses a mark: {lost}"
    told = next((leaf for leaf in _leaves(task.answer) if _says(said, leaf) and not _says(before, leaf)), None)
    return "gives the answer away" if told is not None else ""


def rewritten(task: Task, said: str) -> TaskRow:
    """The task with these words in the place of its last message."""
    prompt = [*task.prompt[:-1], {**task.prompt[-1], "content": said.strip()}]
    meta = {**task.meta, "parents": [f"{task.taskset.slug}#{task.index}"]}
    return TaskRow(prompt, task.answer, meta, domain=task.domain, parent=task.pk)


def _numbers(text: str) -> Counter[str]:
    return Counter(_NUMBER.findall(_THOUSANDS.sub("", text)))


def _missing(wanted: Counter[str], there: Counter[str]) -> str:
    return next(iter(wanted - there), "")


def _leaves(answer: Any) -> Iterator[str]:
    """The texts and numbers that an answer is made of, the first ones."""
    left, seen = [answer], 0
    while left and seen < MOST_LEAVES:
        part = left.pop()
        if isinstance(part, dict):
            left += part.values()
        elif isinstance(part, list):
            left += part
        elif isinstance(part, str | int | float) and not isinstance(part, bool):
            seen += 1
            if 0 < len(leaf := str(part).strip()) <= LONGEST_LEAF:
                yield leaf


def _says(text: str, leaf: str) -> bool:
    """Whether the words stand in the text, as words of their own."""
    return re.search(rf"(?<!\w){re.escape(leaf.casefold())}(?!\w)", text.casefold()) is not None
