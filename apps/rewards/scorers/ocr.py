"""Pays what was read by how little of it must be changed: 1 less the normalised edit distance."""

import re
import unicodedata

import numpy
from pydantic import Field

from apps.rewards.final_answer import NoAnswer, after_thinking, verbatim
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

LONGEST = 4_000  # characters that are compared
SHOWN = 200  # characters of the answer kept in the details


class Options(ScorerOptions):
    keep_case: bool = Field(False, description="Whether large and small letters differ.")
    least: float = Field(0.0, ge=0, le=1, description="What is less like the text than this earns nothing; ANLS takes 0.5.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """1 − edits ÷ the longer one's characters, between `answer["text"]` and the reply (or what it marks as its answer)."""
    wanted = task.answer.get("text", task.answer.get("value"))
    if not isinstance(wanted, str) or not wanted.strip() or len(wanted) > LONGEST:
        return Verdict(None, f"the task does not say what is written, in at most {LONGEST} characters")
    try:
        marked = verbatim(rollout.text)
    except NoAnswer as error:
        return Verdict(0.0, str(error), {"expected": wanted[:SHOWN]})
    said = after_thinking(rollout.text) if marked is None else marked
    details = {"expected": wanted[:SHOWN], "said": said[:SHOWN]}
    if len(said) > 2 * LONGEST:
        return Verdict(0.0, "far longer than what is written", details)
    ours, theirs = normalised(wanted, options.keep_case), normalised(said, options.keep_case)
    edits = distance(ours, theirs)
    like = 1 - edits / max(len(ours), len(theirs), 1)
    value = like if like >= options.least else 0.0
    return Verdict(value, f"{edits} of {max(len(ours), len(theirs))} characters differ", {**details, "edits": edits})


def normalised(text: str, keep_case: bool) -> str:
    """The same for what people would take for the same: compatible characters, case, blanks and quotes around it."""
    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"\s+", " ", text if keep_case else text.casefold())
    return text.strip(" \"'“”‘’`")[: 2 * LONGEST]


def distance(one: str, other: str) -> int:
    """Levenshtein's: how many characters must be put in, left out or replaced. A row at a time, without a loop over its cells."""
    there = numpy.array([ord(letter) for letter in other], dtype=numpy.int32)
    steps = numpy.arange(len(other) + 1, dtype=numpy.int32)
    row = steps.copy()
    for place, letter in enumerate(one, start=1):
        best = row + 1  # left out
        best[1:] = numpy.minimum(best[1:], row[:-1] + (there != ord(letter)))  # replaced
        best[0] = place
        row = numpy.minimum.accumulate(best - steps) + steps  # put in, any number in a row
    return int(row[-1])
