"""Rewards a final answer equivalent to the task's: number, formula, set, point or words."""

import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from apps.rewards import dates, number_words, rough_values, years
from apps.rewards.altered_numbers import without_asked_bounds
from apps.rewards.final_answer import (
    LINE,
    MAX_ANSWER_LENGTH,
    FinalAnswer,
    after_thinking,
    final_answer,
)
from apps.rewards.mathematics import bases, expected, library, notation, units
from apps.rewards.mathematics.reference import is_solution, references
from apps.rewards.mathematics.same import (
    Rules,
    bare,
    is_unread,
    read_all_meanings,
    same,
    same_answer,
)
from apps.rewards.mathematics.shapes import Items, Value
from apps.rewards.school.references import is_reference
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict
from apps.rewards.spelled_values import in_figures

SHOWN = 80  # characters of an answer kept in the details
VERSION = 13

# An exclamation mark behind a number, at the end.
_EXCLAIMED = re.compile(r"(?<=[\d%°)\]}$€£*])\s?[!！]{1,3}([\s*_🎉]{0,8})\Z")
_ENDS = re.compile(r"[.!?\n。！？]")
_WORDS = re.compile(r"(?<![\\\w])[^\W\d_]{2,}")
_MAX_SENTENCE_LENGTH = 400
_MAX_MARKS_LENGTH = 20

_INEQUALITY = re.compile(r"[<>≤≥]|\\(?:leq?|geq?|lt|gt|infty)(?![a-z])|∞")
_SAID_INEQUALITY = re.compile(
    r"(?<![^\W_])(?:all\s)?\$?([a-z])\$?\s(?:that\s)?(?:(?:is|are|must\sbe|has\sto\sbe)\s)?"
    r"(?:(strictly\s)?(greater|larger|more|bigger|less|smaller|lower)\sthan\s(or\sequal\sto\s)?"
    r"|(at\sleast|at\smost)\s)(?=[$\d\\√π-])"
)
# A complex number as Python prints it.
_COMPLEX = re.compile(r"(?<![A-Za-z\\])i(?![A-Za-z])")
_IN_PYTHON = re.compile(r"(?<=\d)j(?![\w])")

# Words of which none is a name of a number or of a set.
_PHRASE = re.compile(r"[^\W\d_]{3,20}(?: [^\W\d_]{2,20}){0,3}")
_ONE_WORD = re.compile(r"\W{0,4}\w{1,30}\W{0,4}")
_VERDICTS = ("yes", "no", "true", "false")
_ONE = re.compile(r"\A(?:a|an)\s(?=[a-z]{3,12}\Z)", re.I)
_AND_A_HALF = re.compile(r"\Aan?\s([a-z]{3,12})\sand\sa\shalf\Z", re.I)
_WORDS_WITH_UNIT = re.compile(r"([a-z][a-z -]{2,60})\s(?:of\san?\s)?([a-z]{3,12})", re.I)
_LETTER_BEHIND = re.compile(r"(-?\d[\d.,]{0,20})([a-zA-Z])")
_TEXT = re.compile(r"\\text\s?\{([^{}]*)\}")

_ASSIGNED = re.compile(r"([a-zA-Z](?:_\{?\w\}?)?)\s?=\s?[^=,;\n]{1,60}\Z")
MAX_LISTED_NAMES = 8  # lines that are parts of one answer

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

    if any(library.knows(right_answer) for right_answer in references(task.answer)):
        library.load_library()


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 where the final answer means `answer["value"]` (or one of a list of them).

    0 otherwise.

    Two different answers, the task written again and what is still to be worked out earn 0.
    """
    right_answers = [_plain_year(right_answer) for right_answer in references(task.answer)]
    if not right_answers:
        return Verdict(None, "the task has no answer")
    if all(map(is_solution, right_answers)):
        return Verdict(None, UNMARKED, {"expected": _excerpt(right_answers[0])})
    question = expected.join_prompt_text(task.prompt)
    reply, is_exclaimed = _without_exclamation(_usual_form(rollout.text, right_answers, question))
    final = final_answer(reply)
    if final is None or (options.strict and final.by == LINE):
        return Verdict(0.0, "no final answer found", {"expected": _excerpt(right_answers[0])})
    if final.by == LINE and (text := _last_lines(reply, right_answers)):
        final = replace(final, text=text, others=())
    details = {
        "expected": _excerpt(right_answers[0]),
        "answer": _excerpt(final.text),
        "found_in": final.by,
    }
    if len(final.text) > MAX_ANSWER_LENGTH:
        return Verdict(0.0, f"the answer is longer than {MAX_ANSWER_LENGTH} characters", details)
    rules = Rules(options.percent, options.units, options.tolerance, expected.asks_ratio(question))
    if final.by == LINE and any(_is_verdict(reply, right_answer) for right_answer in right_answers):
        return Verdict(1.0, "the right answer", details)
    if final.by == LINE and _copies_task(reply, right_answers, question):
        return Verdict(0.0, "a copy of the task, not its answer", details)
    if _is_only_near(reply, final, right_answers, question):
        return Verdict(0.0, "only near the answer, which is exact", details)
    candidates = _candidates(final, right_answers, rules)
    if not candidates:
        return Verdict(0.0, _explain_several_answers(final, rules), details)
    results = [expected.result_of_task(text, question) for text in candidates]
    candidates = [*candidates, *filter(None, results)]
    hexadecimals = [bases.plain_hexadecimal(text, question) for text in candidates]
    candidates += filter(None, hexadecimals)
    candidates += filter(None, [_with_unit_apart(text, right_answers) for text in candidates])
    if is_exclaimed and final.by == LINE:
        candidates.append(f"{final.text}!")
    return _judge_candidates(right_answers, candidates, rules, question, details)


def _is_only_near(
    reply: str, final: FinalAnswer, right_answers: Sequence[str], question: str
) -> bool:
    """Tell whether the answer is "about three" where three is right and no estimate is wanted."""
    if not all(map(rough_values.is_exact, right_answers)) or rough_values.asks_rough(question):
        return False
    if rough_values.is_only_near(final.text, final.text):
        return True
    is_sentence = final.by == LINE and rough_values.is_only_near(after_thinking(reply), final.text)
    return is_sentence and not final.others


def _plain_year(reference: str) -> str:
    return years.in_one_form(reference) if years.is_year(reference) else reference


def _without_exclamation(reply: str) -> tuple[str, bool]:
    """Remove an exclamation mark after a number at the end; tell whether there was one.

    5! alone is a factorial; in "It's 42!" the mark ends the sentence.
    """
    match = _EXCLAIMED.search(reply, max(0, len(reply) - _MAX_MARKS_LENGTH))
    if match is None:
        return reply, False
    before = reply[: match.start()]
    sentence = _ENDS.split(before[-_MAX_SENTENCE_LENGTH:])[-1]
    return (before + match[1], True) if _WORDS.search(sentence) else (reply, False)


def _usual_form(reply: str, right_answers: Sequence[str], question: str) -> str:
    """Write years without their era where a year is wanted, and bounds that are asked for.

    "x is greater than 3" is x > 3 where an inequality is the answer.
    """
    reply = notation.without_cases(without_asked_bounds(reply, question))
    if any(map(_INEQUALITY.search, right_answers)):
        reply = _SAID_INEQUALITY.sub(_as_inequality, reply)
    if any(map(_COMPLEX.search, right_answers)):
        reply = _IN_PYTHON.sub("i", reply)
    return years.in_one_form(reply) if any(map(years.is_year, right_answers)) else reply


def _is_verdict(reply: str, right_answer: str) -> bool:
    """Tell whether a reply in a few sentences says yes, no, true or false, as is right."""
    verdict = bare(right_answer).lower()
    statement = after_thinking(reply).strip()
    return (
        verdict in _VERDICTS
        and len(statement) < MAX_ANSWER_LENGTH
        and is_reference(statement, [verdict])
    )


def _copies_task(reply: str, right_answers: Sequence[str], question: str) -> bool:
    """Tell whether the last line copies an equation of the task that is not its answer."""
    last = after_thinking(reply)[-MAX_ANSWER_LENGTH:].strip().rpartition("\n")[2].strip("$ .*")
    if "=" not in last or any(bare(last) == bare(right_answer) for right_answer in right_answers):
        return False
    forms = {expected.canonical_form(meaning) for meaning in read_all_meanings(last)} - {None}
    return bool(forms & expected.read_prompt_formulas(question))


def _in_figures(text: str) -> str:
    """Write "ten" and "two hours" in figures; "" for what is no number in words or its unit."""
    if text.strip(" .!").lower() == "none":  # as a program prints that it has found nothing
        return ""
    text = _ONE.sub("one ", _AND_A_HALF.sub(r"one and a half \1s", text))
    in_unit = _WORDS_WITH_UNIT.fullmatch(text)
    if in_unit and units.is_known_unit(in_unit[2]) and (value := in_figures(in_unit[1])):
        return f"{value} \\text{{{in_unit[2]}}}"
    figures = "" if re.search(r"\d", text) or len(text) > SHOWN else number_words.in_digits(text)
    match = re.fullmatch(r"\d{1,20}(?: ([a-z]{1,20}))?", figures)
    return figures if match and (not match[1] or units.is_known_unit(match[1])) else ""


def _with_unit_apart(text: str, right_answers: Sequence[str]) -> str:
    """Return 5m as 5 m where the right answer has a unit, too; else ""."""
    match = _LETTER_BEHIND.fullmatch(text.strip(" ."))
    if match is None or not units.is_known_unit(match[2]):
        return ""
    has_unit = any(
        isinstance(shape, Value) and shape.unit
        for right_answer in right_answers
        for shape in read_all_meanings(right_answer)[:1]
    )
    return rf"{match[1]} \text{{{match[2]}}}" if has_unit else ""


def _says_answer(text: str, right_answer: str, question: str) -> bool:
    """Tell whether a sentence gives the right answer if that is a date or a few words."""
    if dates.is_date(text, right_answer):
        return True
    words = _TEXT.sub(r"\1", right_answer).strip(" .")
    if not _PHRASE.fullmatch(words) or _ONE_WORD.fullmatch(text):  # evenly is not even
        return False
    return is_reference(text, [words], question)


def _last_lines(reply: str, right_answers: Sequence[str]) -> str:
    """Return the last line where a date is the answer, and the last ones if each is a part of it.

    A part is a value with a name of its own: x = 2 and, in the next line, y = 3. Else return "".
    """
    lines = [
        line.strip(" $*.,;") for line in after_thinking(reply)[-MAX_ANSWER_LENGTH:].splitlines()
    ]
    lines = [line for line in lines if line]
    if lines and any(map(dates.date_of, right_answers)):
        return lines[-1]
    count = max(map(_count, right_answers))
    assignments = [match for line in lines[-count:] if (match := _ASSIGNED.match(line))]
    names = {assignment[1] for assignment in assignments}
    is_whole = count > 1 and len(assignments) == len(names) == count
    return ", ".join(lines[-count:]) if is_whole and count < MAX_LISTED_NAMES else ""


def _as_inequality(match: re.Match) -> str:
    name, _, word, is_closed, bound = match.groups()
    sign = ">" if word in ("greater", "larger", "more", "bigger") or bound == "at least" else "<"
    return f"{name} {sign}{'=' if is_closed or bound else ''} "


def _judge_candidates(
    right_answers: Sequence[str],
    candidates: Sequence[str],
    rules: Rules,
    prompt: str,
    details: dict,
) -> Verdict:
    why = ""
    candidates = [*candidates, *filter(None, map(_in_figures, candidates))]
    for right_answer in right_answers:
        if any(_says_answer(text, right_answer, prompt) for text in candidates):
            return Verdict(1.0, "the right answer", details)
        for text in candidates:
            is_same = same_answer(right_answer, text, rules) or library.same_for_the_library(
                right_answer, text
            )
            if not is_same:
                continue
            why = expected.why_no_answer(right_answer, text, prompt)
            if not why:
                return Verdict(1.0, "the right answer", {**details, "answer": _excerpt(text)})
    if why:
        return Verdict(0.0, why, details)
    if all(is_unread(text) for text in (*right_answers, *candidates)):
        return Verdict(
            None, "neither the answer nor the task's answer is a readable formula", details
        )
    return Verdict(0.0, "another answer", details)


def _candidates(final: FinalAnswer, right_answers: Sequence[str], rules: Rules) -> list[str]:
    """List the texts that may be the answer: the last one, and all boxes joined if they form one.

    Return an empty list if several different answers were given.
    """
    candidates = [] if _differing_answers(final, rules) else [final.text]
    if final.parts and max(map(_count, right_answers)) > 1:
        for parts in (list(final.parts), _distinct_parts(final.parts, rules)):
            if len(parts) in map(_count, right_answers):
                candidates.append(", ".join(parts))
    return list(dict.fromkeys(candidates))


def _differing_answers(final: FinalAnswer, rules: Rules) -> list[str]:
    """List the other answers that are neither this one nor a part of it."""
    last, *_ = read_all_meanings(final.text)
    parts = last.items if isinstance(last, Items) else ()
    return [
        other_answer
        for other_answer in final.others
        if not same_answer(final.text, other_answer, rules)
        and not any(
            same(part, shape, rules)
            for part in parts
            for shape in read_all_meanings(other_answer)[:1]
        )
    ]


def _distinct_parts(parts: Sequence[str], rules: Rules) -> list[str]:
    distinct: list[str] = []
    for part in parts:
        if not any(same_answer(earlier, part, rules) for earlier in distinct):
            distinct.append(part)
    return distinct


def _count(text: str) -> int:
    """Count the values of an answer."""
    first, *_ = read_all_meanings(text)
    return len(first.items) if isinstance(first, Items) else 1


def _explain_several_answers(final: FinalAnswer, rules: Rules) -> str:
    other_answer = _differing_answers(final, rules)[0]
    return f"several different answers: {_excerpt(other_answer)} and {_excerpt(final.text)}"


def _excerpt(text: str) -> str:
    return text.replace("\x00", "")[:SHOWN]
