"""Pays a final answer that means the same as the task's: numbers, formulas, sets, points, words."""

from collections.abc import Sequence

from pydantic import Field

from apps.rewards import years
from apps.rewards.altered_numbers import without_asked_bounds
from apps.rewards.final_answer import LINE, LONGEST, FinalAnswer, final_answer
from apps.rewards.mathematics import expected, library
from apps.rewards.mathematics.reference import is_solution, references
from apps.rewards.mathematics.same import Rules, is_unread, read_all_meanings, same, same_answer
from apps.rewards.mathematics.shapes import Items
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

SHOWN = 80  # characters of an answer kept in the details
VERSION = 11

UNMARKED = "the task's answer is a solution that marks no final answer, as \\boxed{} or #### do"


class Options(ScorerOptions):
    percent: bool = Field(
        True,
        description=(
            "Treat 50 % and 0.5 as equal. If off, a percentage only matches a percentage."
        ),
    )
    units: bool = Field(
        True,
        description=(
            "The unit may be omitted. Known units are converted; any other unit is wrong."
        ),
    )
    tolerance: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Tolerance relative to the correct number.",
    )
    strict: bool = Field(
        False,
        description="Only a marked answer counts: in \\boxed{}, after ####, or in <answer> tags.",
    )


def prepare(task: TaskView) -> None:
    """Load what the judgement of this task needs."""
    import mpmath  # noqa: F401

    if any(library.knows(each) for each in references(task.answer)):
        library.load_library()


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 where the final answer means `answer["value"]` (or one of a list of them).

    0 otherwise.

    Two different answers, the task written again and what is still to be worked out earn 0.
    """
    right_answers = [_plain_year(each) for each in references(task.answer)]
    if not right_answers:
        return Verdict(None, "the task has no answer")
    if all(map(is_solution, right_answers)):
        return Verdict(None, UNMARKED, {"expected": _shown(right_answers[0])})
    question = expected.join_prompt_text(task.prompt)
    final = final_answer(_usual_form(rollout.text, right_answers, question))
    if final is None or (options.strict and final.by == LINE):
        return Verdict(0.0, "no final answer found", {"expected": _shown(right_answers[0])})
    details = {
        "expected": _shown(right_answers[0]),
        "answer": _shown(final.text),
        "found_in": final.by,
    }
    if len(final.text) > LONGEST:
        return Verdict(0.0, f"the answer is longer than {LONGEST} characters", details)
    rules = Rules(options.percent, options.units, options.tolerance)
    candidates = _candidates(final, right_answers, rules)
    if not candidates:
        return Verdict(0.0, _different(final, rules), details)
    results = [expected.result_of_task(text, question) for text in candidates]
    candidates = [*candidates, *filter(None, results)]
    return _judged(right_answers, candidates, rules, question, details)


def _plain_year(reference: str) -> str:
    return years.in_one_form(reference) if years.is_year(reference) else reference


def _usual_form(reply: str, right_answers: Sequence[str], question: str) -> str:
    """Write years without their era where a year is wanted, and bounds that are asked for."""
    reply = without_asked_bounds(reply, question)
    return years.in_one_form(reply) if any(map(years.is_year, right_answers)) else reply


def _judged(
    right_answers: Sequence[str],
    candidates: Sequence[str],
    rules: Rules,
    prompt: str,
    details: dict,
) -> Verdict:
    why = ""
    for each in right_answers:
        for text in candidates:
            is_same = same_answer(each, text, rules) or library.same_for_the_library(each, text)
            if not is_same:
                continue
            why = expected.why_no_answer(each, text, prompt)
            if not why:
                return Verdict(1.0, "the right answer", {**details, "answer": _shown(text)})
    if why:
        return Verdict(0.0, why, details)
    if all(is_unread(text) for text in (*right_answers, *candidates)):
        return Verdict(
            None, "neither the answer nor the task's answer is a readable formula", details
        )
    return Verdict(0.0, "another answer", details)


def _candidates(final: FinalAnswer, right_answers: Sequence[str], rules: Rules) -> list[str]:
    """List what may be the answer: the last one, and all boxes where together they are one.

    Empty where several different answers were given.
    """
    found = [] if _differing(final, rules) else [final.text]
    if final.parts and max(map(_count, right_answers)) > 1:
        for parts in (list(final.parts), _distinct(final.parts, rules)):
            if len(parts) in map(_count, right_answers):
                found.append(", ".join(parts))
    return list(dict.fromkeys(found))


def _differing(final: FinalAnswer, rules: Rules) -> list[str]:
    """List the other answers that are neither this one nor a part of it."""
    last, *_ = read_all_meanings(final.text)
    parts = last.items if isinstance(last, Items) else ()
    return [
        other
        for other in final.others
        if not same_answer(final.text, other, rules)
        and not any(
            same(part, shape, rules) for part in parts for shape in read_all_meanings(other)[:1]
        )
    ]


def _distinct(parts: Sequence[str], rules: Rules) -> list[str]:
    found: list[str] = []
    for part in parts:
        if not any(same_answer(other, part, rules) for other in found):
            found.append(part)
    return found


def _count(text: str) -> int:
    """Count the values of an answer."""
    first, *_ = read_all_meanings(text)
    return len(first.items) if isinstance(first, Items) else 1


def _different(final: FinalAnswer, rules: Rules) -> str:
    other = _differing(final, rules)[0]
    return f"several different answers: {_shown(other)} and {_shown(final.text)}"


def _shown(text: str) -> str:
    return text.replace("\x00", "")[:SHOWN]
