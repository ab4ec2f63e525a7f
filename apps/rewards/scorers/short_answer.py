"""Pays the key ideas of a short answer by its marking scheme; where words alone cannot decide, a judge may be asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from apps.rewards.final_answer import after_thinking, tags
from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.judging.fencing import RULE, conversation, fenced
from apps.rewards.judging.verdicts import counted, number
from apps.rewards.school.ideas import Idea, Marked, Scheme, is_reference, mark, scheme, words
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SAME = "same"  # the judge's key where there are no ideas, only an answer to compare with


class Options(ScorerOptions):
    undecided: Literal["partial", "null"] = Field(
        "partial", description="Where words do not decide and no judge is asked: the points found, or no value."
    )
    most_words: int = Field(200, ge=1, description="A longer answer is worth nothing: it could say everything.")
    judge: JudgeOptions | None = Field(None, description="Who is asked where words do not decide; empty asks nobody.")


@dataclass(frozen=True)
class Read:
    """An answer beside its marking scheme; `marked` is None where the scheme has no ideas."""

    text: str
    scheme: Scheme
    marked: Marked | None

    @property
    def missing(self) -> list[Idea]:
        """Ideas that were not found in so many words, and may have been said in others."""
        return [idea for idea in self.scheme.ideas if idea.any_of[0] in self.marked.missing] if self.marked else []


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Points of `answer["ideas"]` that were said, of all; 1 for the words of `answer["reference"]`."""
    marking = scheme(task.answer)
    if marking is None:
        return Verdict(None, "the task has no reference and no key ideas to mark by")
    text = _said(rollout)
    spoken = words(text)
    if not spoken:
        return Verdict(0.0, "nothing was said", {"deterministic": True})
    if len(spoken) > options.most_words:
        return Verdict(0.0, f"longer than {options.most_words} words", {"deterministic": True})
    if is_reference(text, marking.reference):
        return Verdict(1.0, "a reference answer", {"deterministic": True})
    if not marking.ideas:
        return _undecided(0.0, "not the words of a reference answer", {}, options)
    return _by_points(mark(text, marking), marking.total, options)


def ask(rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Ask]:
    """About each idea that was not found, or whether the answer says the same as the reference; as often as there are votes."""
    read_ = _read(rollouts, task)
    criteria = [f'"idea_{place}": 1 if the answer says this in other words, else 0: {" / ".join(idea.any_of)}'
                for place, idea in enumerate(read_.missing, start=1)]  # fmt: skip
    criteria = criteria or [f'"{SAME}": 1 if the answer says the same as the reference, else 0']
    system = (
        f"You mark a pupil's short answer.\n{RULE}\n\nMarks:\n" + "\n".join(f"- {one}" for one in criteria) + "\n\n"
        "What is hedged, denied or contradicted is not said. First reason about each, briefly. Then end your reply with one line, "
        "a JSON object with these keys and 0 or 1 for each."
    )
    texts = [fenced("question", conversation(task.prompt)), *(fenced("reference", text) for text in read_.scheme.reference)]
    texts.append(fenced("answer", read_.text))
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "\n\n".join(texts)}]
    return [Ask(messages, vote) for vote in range(options.judge.votes)]


def read(replies: Sequence[Reply], rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Verdict]:
    read_ = _read(rollouts, task)
    details = {"deterministic": False, "by": "judge"}
    if read_.marked:
        details |= {"found": read_.marked.found, "denied": read_.marked.denied, "asked_about": read_.marked.missing}
    return [counted(replies, lambda found: _share(found, read_), details)]


def _share(found: dict, read_: Read) -> float:
    """The answer's share of all points by this verdict. Raises Unreadable."""
    if read_.marked is None:
        return number(found, SAME, 0, 1)
    told = sum(idea.points * number(found, f"idea_{place}", 0, 1) for place, idea in enumerate(read_.missing, start=1))
    return min(1.0, (read_.marked.points + told) / read_.scheme.total)


def _read(rollouts: Sequence[RolloutView], task: TaskView) -> Read:
    (rollout,) = rollouts
    marking, text = scheme(task.answer), _said(rollout)
    return Read(text, marking, mark(text, marking) if marking.ideas else None)


def _said(rollout: RolloutView) -> str:
    said = after_thinking(rollout.text)
    return marked[-1] if (marked := tags(said)) else said.strip()


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
    return Verdict(value, reason, {**details, "deterministic": False}, undecided=True)
