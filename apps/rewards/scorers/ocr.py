"""Rewards transcribed text by similarity: 1 minus the normalised edit distance."""

import re
import unicodedata

import numpy
from pydantic import Field

from apps.rewards.final_answer import NoAnswer, after_thinking, verbatim
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 2
MAX_TEXT_LENGTH = 4_000  # characters that are compared
SHOWN = 200  # characters of the answer kept in the details


class Options(ScorerOptions):
    keep_case: bool = Field(False, description="Compare upper and lower case letters as different.")
    min_similarity: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Similarity below this value gets no reward; ANLS uses 0.5.",
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 − edits ÷ the longer text's characters, between `answer["text"]` and the reply.

    If the reply marks an answer, only that is compared.
    """
    expected = task.answer.get("text", task.answer.get("value"))
    if not isinstance(expected, str) or not expected.strip() or len(expected) > MAX_TEXT_LENGTH:
        return Verdict(
            None,
            (
                "the task's answer must be the text in the image, at most "
                f"{MAX_TEXT_LENGTH} characters"
            ),
        )
    try:
        marked = verbatim(rollout.text)
    except NoAnswer as error:
        return Verdict(0.0, str(error), {"expected": expected[:SHOWN]})
    reply = after_thinking(rollout.text) if marked is None else marked
    details = {"expected": expected[:SHOWN], "answer": reply[:SHOWN]}
    if len(reply) > 2 * MAX_TEXT_LENGTH:
        return Verdict(0.0, "much longer than the text in the image", details)
    expected_text = normalise_text(expected, options.keep_case)
    reply_text = normalise_text(reply, options.keep_case)
    edits = edit_distance(expected_text, reply_text)
    similarity = 1 - edits / max(len(expected_text), len(reply_text), 1)
    value = similarity if similarity >= options.min_similarity else 0.0
    return Verdict(
        value,
        f"{edits} of {max(len(expected_text), len(reply_text))} characters differ",
        {**details, "edits": edits},
    )


def normalise_text(text: str, keep_case: bool) -> str:
    """Normalise compatible characters, case, blanks and surrounding quotes."""
    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"\s+", " ", text if keep_case else text.casefold())
    return text.strip(" \"'“”‘’`")[: 2 * MAX_TEXT_LENGTH]


def edit_distance(first: str, second: str) -> int:
    """Return the Levenshtein distance: insertions, deletions and replacements of characters.

    It is computed a row at a time, without a loop over its cells.
    """
    second_codes = numpy.array([ord(letter) for letter in second], dtype=numpy.int32)
    steps = numpy.arange(len(second) + 1, dtype=numpy.int32)
    row = steps.copy()
    for place, letter in enumerate(first, start=1):
        best = row + 1  # left out
        best[1:] = numpy.minimum(best[1:], row[:-1] + (second_codes != ord(letter)))  # replaced
        best[0] = place
        row = numpy.minimum.accumulate(best - steps) + steps  # put in, any number in a row
    return int(row[-1])
