"""Pays the key ideas of a short answer by its marking scheme, and says when words alone cannot decide."""

from typing import Literal

from pydantic import Field

from apps.rewards.mathematics.final import after_thinking, tags
from apps.rewards.school.ideas import Marked, is_reference, mark, scheme, words
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict


class Options(ScorerOptions):
    undecided: Literal["partial", "null"] = Field(
        "partial", description="Where words do not decide: the points found, or no value."
    )
    most_words: int = Field(200, ge=1, description="A longer answer is worth nothing: it could say everything.")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Points of `answer["ideas"]` that were said, of all; 1 for the words of `answer["reference"]`."""
    marking = scheme(task.answer)
    if marking is None:
        return Verdict(None, "the task has no reference and no key ideas to mark by")
    said = after_thinking(rollout.text)
    text = marked[-1] if (marked := tags(said)) else said.strip()
    spoken = words(text)
    if not spoken:
        return Verdict(0.0, "nothing was said", {"deterministic": True})
    if len(spoken) > options.most_words:
        return Verdict(0.0, f"longer than {options.most_words} words", {"deterministic": True})
    if is_reference(text, marking.reference):
        return Verdict(1.0, "a reference answer", {"deterministic": True})
    if not marking.ideas:
        return _undecided(0.0, "not the words of a reference answer", {}, options)
    result = mark(text, marking)
    return _by_points(result, marking.total, options)


def _by_points(result: Marked, total: float, options: Options) -> Verdict:
    details = {"points": result.points, "of": total, "found": result.found, "denied": result.denied, "missing": result.missing}
    details |= {"wrong": result.wrong} if result.wrong else {}
    value = min(1.0, result.points / total)
    reason = f"{result.points:g} of {total:g} points"
    if result.missing:  # it may be said in words of its own
        return _undecided(value, f"{reason}; not found: {result.missing[0]}"[:200], details, options)
    return Verdict(value, reason, {**details, "deterministic": True})


def _undecided(value: float, reason: str, details: dict, options: Options) -> Verdict:
    value = None if options.undecided == "null" else value
    return Verdict(value, reason, {**details, "deterministic": False})
