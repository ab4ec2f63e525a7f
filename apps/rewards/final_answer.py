"""Find the final answer in a response: where it stands, and whether it is one answer.

In this order: the last `\\boxed{…}` (or `\\fbox{…}`), `#### …`, `<answer>…</answer>`, then what the
last line says (`apps.rewards.unmarked_answers`). Thoughts, and boxes that are only named, are left
out; where the last box was cut off there is no answer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from apps.accounts import strict_json
from apps.rewards import unmarked_answers
from apps.rewards.unmarked_answers import MAX_ANSWER_LENGTH, strip_marks

T = TypeVar("T")
LINE = "the last line"  # where an answer stands that is not marked
MAX_ANSWERS = 50  # answers of one kind that are looked at; more are no answer
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=[{\d\\-]|[A-Za-z](?![A-Za-z]))")
_WORD = re.compile(r"-?(?:\d[\d.,]*\d|\d|[A-Za-z]|\\[A-Za-z]+)")
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*(\S[^\n]*)")
_HEADING = re.compile(r"[*_\d.\s]*+[A-Za-z]{2,}")  # "#### Step 1", unless nothing follows
_TAGS = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL | re.IGNORECASE)
# What stands in a box that only shows where the answer is to go.
_NAMED_ONLY = re.compile(
    r"(?:\\text\s?\{\s?)?(?:\.{2,4}|…|\\[lc]?dots|\?|_+|(?:your |final |the )?answer(?: here)?"
    r"|result|number|letter)?\s?\}?",
    re.I,
)
# Words that tell that a box holds no answer; a text that ends in the name of a box.
_DISOWNED = re.compile(
    r"[\s$)]{0,3}(?:is|was)(?:n['’]t|\s(?:not|wrong|incorrect|false|impossible))\b", re.I
)
_FENCED = re.compile(r"[^`]{0,500}```(?:json)?\n([^`]*)```", re.I)
_FIELDS = frozenset(("answer", "final_answer", "final answer", "result", "solution"))
_COMMENT = re.compile(r"<!--(?:(?!<!--)[\s\S]){0,4000}?-->")
_CUT_OFF = re.compile(r"\\(?:boxed?|fbox)\s*$")
# Words that take back the answer before them.
_TAKEN_BACK = re.compile(
    r"\b(?:no|not|wait|wrong|actually|instead|sorry|incorrect|rather|nein|non)\b|不对|错", re.I
)
# How models mark their thoughts: the first opens them, the second ends them.
THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<thoughts>", "</thoughts>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)


class NoAnswer(ValueError):
    """Raised if the response gives no answer of the kind, or several; says which."""


@dataclass(frozen=True)
class FinalAnswer:
    """Final answer of a reply, and how it was marked.

    `others`: the other marked answers, which must agree with it; `parts`: all boxes in order, if
    there are several, which together may be one answer.
    """

    text: str
    by: str
    others: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def final_answer(response: str) -> FinalAnswer | None:
    """Return the final answer, or None if the response holds none."""
    reply = after_thinking(response)
    boxed, is_cut, is_together = _boxes(reply)
    if is_cut:
        return None
    kinds = (("boxed", boxed), ("####", hashes(reply)), ("<answer>", tags(reply)))
    marked = [(by, answers) for by, answers in kinds if answers]
    if marked:
        by, answers = marked[0]
        more = [answer for _, answers in marked[1:] for answer in answers]
        other_answers = tuple(dict.fromkeys([*answers[:-1], *more]))
        parts = tuple(answers) if by == "boxed" and is_together and len(answers) > 1 else ()
        return FinalAnswer(answers[-1], by, other_answers, parts)
    return _in_json(reply) or last_line(reply)


def _in_json(text: str) -> FinalAnswer | None:
    """Read a reply that is all one JSON object, or a block of it, by its one field of an answer."""
    text = text.strip()
    if fenced := _FENCED.fullmatch(text[-MAX_ANSWER_LENGTH:]):
        text = fenced[1].strip()
    if len(text) > MAX_ANSWER_LENGTH or not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        fields = strict_json.decode_json(text)
    except strict_json.NotStrictJson:
        return None
    answer_values = [value for name, value in fields.items() if name.lower() in _FIELDS]
    if (
        len(answer_values) != 1
        or isinstance(answer_values[0], bool)
        or not isinstance(answer_values[0], str | int | float)
    ):
        return None
    value = answer_values[0] if isinstance(answer_values[0], str) else repr(answer_values[0])
    return FinalAnswer(value.strip(), LINE)


def verbatim(response: str) -> str | None:
    """Return the marked answer unchanged, None if none is marked.

    Raises NoAnswer if several marked answers differ.
    """
    reply = after_thinking(response)
    marked = [*boxes(reply), *hashes(reply), *inside_tags(reply)]
    return only([_unwrap_box(text) for text in marked]) if marked else None


def only(answers: Sequence[T]) -> T:
    """Return the answer that all of these agree on. Raises NoAnswer if there are several."""
    if not answers:
        raise NoAnswer("no answer of the expected kind")
    if any(answer != answers[0] for answer in answers):
        raise NoAnswer("several different answers")
    return answers[0]


def after_thinking(response: str) -> str:
    """Leave out thoughts: the text up to their end, or to the end of the text if they stay open.

    Comments of HTML, which nobody sees, are left out, too.
    """
    if "<!--" in response:
        response = _COMMENT.sub(" ", response)
    for opened, closed in THOUGHTS:
        if closed in response or opened in response:
            response = response.rpartition(closed)[2].partition(opened)[0]
    return response


def boxes(text: str) -> list[str]:
    """List the contents of the last closed boxes that are in no other box, in order."""
    return _boxes(text)[0]


def _boxes(text: str) -> tuple[list[str], bool, bool]:
    """List the boxes; tell whether the last one was cut off, and whether none was taken back."""
    contents: list[str] = []
    end = 0
    is_cut = False
    is_together = True
    # Each is read up to its end: boxes that never close must be few.
    for match in list(_BOX.finditer(text))[-2 * MAX_ANSWERS :]:
        if match.start() < end:
            continue
        before = end
        content, end = _content(text, match.end())
        is_cut = content is None and text[match.end()] == "{"
        is_disowned = _DISOWNED.match(text, end) is not None
        if content is not None and not is_disowned and not _NAMED_ONLY.fullmatch(content):
            if contents and _TAKEN_BACK.search(text[before : match.start()]):
                is_together = False
            contents.append(content)
    return (
        contents,
        is_cut or _CUT_OFF.search(text, max(0, len(text) - 40)) is not None,
        is_together,
    )


def _content(text: str, start: int) -> tuple[str | None, int]:
    """Return the text inside the braces that begin here, and where they end.

    `\\boxed 5` has the one word after it.
    """
    if text[start] != "{":
        word = _WORD.match(text, start)
        if word is None:
            return None, start
        end = word.end()
        while word.group().startswith("\\") and text[end : end + 1] == "{":
            end = _closing_brace(text, end)
            if end < 0:
                return None, start
        return text[start:end], end
    end = _closing_brace(text, start)
    return (text[start + 1 : end - 1].strip(), end) if end > 0 else (None, start)


def _closing_brace(text: str, start: int) -> int:
    """Return where the brace that opens here is closed; -1 where it is not."""
    depth = 0
    for place in range(start, min(len(text), start + MAX_ANSWER_LENGTH)):
        sign = text[place]
        if sign in "{}" and (place == 0 or text[place - 1] != "\\"):
            depth += 1 if sign == "{" else -1
            if not depth:
                return place + 1
    return -1


def _unwrap_box(text: str) -> str:
    """Return the contents of the text's only box; else the text unchanged."""
    contents = boxes(text)
    return contents[-1] if len(contents) == 1 else text


def hashes(text: str) -> list[str]:
    """List what follows each ####, without headings of sections."""
    text = text.rstrip()
    matches = list(_HASHES.finditer(text))[-MAX_ANSWERS:] if "####" in text else []
    return [
        strip_marks(match[1][:MAX_ANSWER_LENGTH])
        for match in matches
        if match.end() == len(text) or not _HEADING.match(match[1])
    ]


def tags(text: str) -> list[str]:
    """List what the last answer tags say: what is marked in them, or what their last line says."""
    return [_tag_answer(content) for content in inside_tags(text)]


def _tag_answer(inside: str) -> str:
    marked = boxes(inside) or hashes(inside)
    if marked:
        return marked[-1]
    final = last_line(inside)
    return final.text if final else inside


def inside_tags(text: str) -> list[str]:
    """List what stands in the last answer tags."""
    if "</answer>" not in text.lower():
        return []
    return [
        content.strip()
        for content in _TAGS.findall(text)[-MAX_ANSWERS:]
        if len(content) <= MAX_ANSWER_LENGTH
    ]


def last_line(text: str) -> FinalAnswer | None:
    """Read the last line that says anything."""
    answers = unmarked_answers.list_answers(text)
    return FinalAnswer(answers[-1], LINE, tuple(answers[:-1])) if answers else None
