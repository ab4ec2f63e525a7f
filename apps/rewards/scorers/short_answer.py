"""Rewards the key points of a short answer by a marking scheme; a judge can be asked too."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from apps.rewards.final_answer import after_thinking, boxes, tags
from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.judging.fencing import RULE, fenced, join_chat
from apps.rewards.judging.verdicts import average_verdicts, read_number
from apps.rewards.mathematics.expected import join_prompt_text
from apps.rewards.school.ideas import (
    Idea,
    MarkingResult,
    Scheme,
    mark_ideas,
    names_everything,
    scheme,
)
from apps.rewards.school.references import is_reference
from apps.rewards.school.words import MAX_TEXT_LENGTH, content, stem_words
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 11
SAME = "same"  # the judge's key where there are no ideas, only an answer to compare with


class Options(ScorerOptions):
    undecided: Literal["partial", "null"] = Field(
        "partial",
        description=(
            "Without a judge, if the words do not decide: give the points found, or no reward."
        ),
    )
    max_words: int = Field(
        200,
        ge=1,
        description=(
            "Maximum number of words. A longer answer gets no reward, as it could list everything."
        ),
    )
    judge: JudgeOptions | None = Field(
        None,
        description="Judge for answers that the words do not decide. If empty, no judge is used.",
    )


@dataclass(frozen=True)
class Read:
    """Answer with its marking scheme; `marked` is None if the scheme has no ideas."""

    text: str
    scheme: Scheme
    marked: MarkingResult | None

    @property
    def missing(self) -> list[Idea]:
        """Return the ideas that were not found literally, and may be there in other words."""
        return (
            [idea for idea in self.scheme.ideas if idea.any_of[0] in self.marked.missing]
            if self.marked
            else []
        )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return the share of the points of `answer["ideas"]` that the answer states.

    1 for the words of `answer["reference"]`.
    """
    marking = scheme(task.answer)
    if marking is None:
        return Verdict(None, "the task has neither a reference answer nor key ideas")
    text = _answer_text(rollout)
    spoken = stem_words(text)
    if not spoken:
        return Verdict(0.0, "nothing was said", {"deterministic": True})
    if len(spoken) > options.max_words:
        return Verdict(0.0, f"longer than {options.max_words} words", {"deterministic": True})
    if not marking.ideas and _marks_several(rollout):
        return Verdict(0.0, "several different answers", {"deterministic": True})
    if is_reference(text, marking.reference, join_prompt_text(task.prompt)):
        return Verdict(1.0, "a reference answer", {"deterministic": True})
    if marking.ideas and names_everything(text, marking):
        return Verdict(0.0, "a list of all possible answers", {"deterministic": True})
    if not marking.ideas:
        return _undecided_verdict(0.0, "does not match a reference answer", {}, options)
    return _score_points(mark_ideas(text, marking), marking.total, options)


def ask(rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Ask]:
    """Ask about each idea that was not found, or whether the answer equals the reference.

    There are as many requests as votes.
    """
    reading = _read(rollouts, task)
    criteria = [
        f'"idea_{place}": 1 if the answer says this in other words, else 0:'
        f" {' / '.join(idea.any_of)}"
        for place, idea in enumerate(reading.missing, start=1)
    ]
    criteria = criteria or [f'"{SAME}": 1 if the answer says the same as the reference, else 0']
    system = (
        f"You mark a pupil's short answer.\n{RULE}\n\nMarks:\n"
        + "\n".join(f"- {criterion}" for criterion in criteria)
        + "\n\nWhat is hedged, denied or contradicted is not said. First reason about each,"
        " briefly. Then end your reply with one line, a JSON object with these keys and 0 or 1"
        " for each."
    )
    texts = [
        fenced("question", join_chat(task.prompt)),
        *(fenced("reference", text) for text in reading.scheme.reference),
    ]
    texts.append(fenced("answer", reading.text))
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": "\n\n".join(texts)},
    ]
    assert options.judge is not None  # else nothing is asked
    return [Ask(messages, vote) for vote in range(options.judge.votes)]


def read(
    replies: Sequence[Reply], rollouts: Sequence[RolloutView], task: TaskView, options: Options
) -> list[Verdict]:
    reading = _read(rollouts, task)
    details = {"deterministic": False, "by": "judge"}
    if reading.marked:
        details |= {
            "found": reading.marked.found,
            "denied": reading.marked.denied,
            "asked_about": reading.marked.missing,
        }
    return [average_verdicts(replies, lambda verdict: _share(verdict, reading), details)]


def _share(verdict: dict, reading: Read) -> float:
    """Return the answer's share of all points by this verdict. Raises Unreadable."""
    if reading.marked is None:
        return read_number(verdict, SAME, 0, 1)
    judged_points = sum(
        idea.points * read_number(verdict, f"idea_{place}", 0, 1)
        for place, idea in enumerate(reading.missing, start=1)
    )
    return min(1.0, (reading.marked.points + judged_points) / reading.scheme.total)


def _read(rollouts: Sequence[RolloutView], task: TaskView) -> Read:
    (rollout,) = rollouts
    marking = scheme(task.answer)
    assert marking is not None  # else `score` gave a verdict
    text = _answer_text(rollout)
    return Read(text, marking, mark_ideas(text, marking) if marking.ideas else None)


def _answer_text(rollout: RolloutView) -> str:
    reply = after_thinking(rollout.text)
    marked = tags(reply) or boxes(reply)
    text = (marked[-1] if marked else reply.strip())[:MAX_TEXT_LENGTH]
    return re.sub(r"\\(?:text\w{0,8}|mathrm|mathbf|mbox)\s?\{([^{}]*)\}", r"\1", text)


def _marks_several(rollout: RolloutView) -> bool:
    """Tell whether boxes or answer tags mark different answers."""
    reply = after_thinking(rollout.text)
    marked = tags(reply) or boxes(reply)
    return len({tuple(content(text)) for text in marked}) > 1


def _score_points(result: MarkingResult, total: float, options: Options) -> Verdict:
    details = {
        "points": result.points,
        "of": total,
        "found": result.found,
        "denied": result.denied,
        "missing": result.missing,
    }
    details |= {"wrong": result.wrong} if result.wrong else {}
    value = min(1.0, result.points / total)
    reason = f"{result.points:g} of {total:g} points"
    if result.missing:  # it may be said in words of its own
        return _undecided_verdict(
            value, f"{reason}; missing: {result.missing[0]}"[:200], details, options
        )
    return Verdict(value, reason, {**details, "deterministic": True})


def _undecided_verdict(value: float, reason: str, details: dict, options: Options) -> Verdict:
    counted_value = None if options.undecided == "null" else value
    return Verdict(counted_value, reason, {**details, "deterministic": False}, undecided=True)
