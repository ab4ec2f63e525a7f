"""The final answer in a response: where it stands, and whether it is one answer.

In this order: the last `\\boxed{…}` (or `\\fbox{…}`), `#### …`, `<answer>…</answer>`, then the last line: what follows "answer is",
"answer:" or the last "=", the line itself, or its only number. Reasoning in closed `<think>` tags is not looked at.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
LONGEST = 2_000  # characters of one answer
LINE = "the last line"  # where an answer stands that is not marked
MOST = 50  # answers of one kind that are looked at; more are no answer
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=[{\w\\-])")
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*(\S[^\n]*)")
_HEADING = re.compile(r"[*_\d.\s]*+[A-Za-z]{2,}")  # "#### Step 1" is none, unless nothing follows
_TAGS = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL | re.IGNORECASE)
_SAYS = re.compile(
    r"(?:final\s+|correct\s+)?(?:answer|result|solution|equation|formula)\b(?:\s+(?:is|equals)\b(?:\s+equal\s+to\b)?)?"
    r"\s*(?:\*\*)?\s*[:=]?\s*(?:\*\*)?",
    re.I,
)
# Runs of digits are possessive: what follows a part of a run is a digit, which the end forbids.
_NUMBER = re.compile(
    r"(?<![\w.,])[-+]?\$?\d++(?:,\d*+)*(?:\.\d++)?(?:/\d++)?\s?%?(?!\w*\d)"
)
_LEAD = re.compile(
    r"^(?:(?:so|thus|hence|therefore|then|finally|and|we\s+(?:get|have|find)|it\s+is|this\s+is|equals?)"
    r"\b[\s,:]*){1,3}",
    re.I,
)


class NoAnswer(ValueError):
    """The response gives no answer of the kind, or several; the message says which."""


@dataclass(frozen=True)
class Final:
    """What was answered and how it was marked; `others`: the other marked answers, which must say the same."""

    text: str
    by: str
    others: tuple[str, ...] = ()


def final_answer(response: str) -> Final | None:
    """None where nothing is marked as the answer."""
    said = after_thinking(response)
    marked = [(by, found) for by, found in (("boxed", boxes(said)), ("####", hashes(said)), ("<answer>", tags(said))) if found]
    if marked:
        by, found = marked[0]
        more = [each for _, answers in marked[1:] for each in answers]
        return Final(found[-1], by, tuple(dict.fromkeys([*found[:-1], *more])))
    return last_line(said)


def verbatim(response: str) -> str | None:
    """The marked answer in its own words, None where none is marked. Raises NoAnswer where several say different things."""
    said = after_thinking(response)
    found = [*boxes(said), *hashes(said), *_inside_tags(said)]
    return only(found) if found else None


def only(said: Sequence[T]) -> T:
    """The one thing that was said, however often. Raises NoAnswer."""
    if not said:
        raise NoAnswer("no answer of the kind that was asked for")
    if any(one != said[0] for one in said):
        raise NoAnswer("several different answers")
    return said[0]


def after_thinking(response: str) -> str:
    """What follows the last `</think>`; all of it where there is none."""
    return response.rpartition("</think>")[2]


def boxes(text: str) -> list[str]:
    """The contents of the last closed boxes that are in no other box, in order."""
    found, end = [], 0
    for match in list(_BOX.finditer(text))[-2 * MOST :]:  # each is read up to its end: boxes that never close must be few
        if match.start() >= end:
            content, end = _content(text, match.end())
            if content is not None:
                found.append(content)
    return found


def _content(text: str, start: int) -> tuple[str | None, int]:
    """What is in the braces from here, and where they end; `\\boxed 5` has one word."""
    if text[start] != "{":
        word = re.compile(r"-?(?:\d[\d.,]*\d|\d|\\?\w+)").match(text, start)
        return (word.group(), word.end()) if word else (None, start)
    depth, place = 0, start
    for place in range(start, min(len(text), start + LONGEST)):
        sign = text[place]
        if sign in "{}" and (place == 0 or text[place - 1] != "\\"):
            depth += 1 if sign == "{" else -1
            if not depth:
                return text[start + 1 : place].strip(), place + 1
    return None, start


def hashes(text: str) -> list[str]:
    """What follows each ####, without headings of sections."""
    text = text.rstrip()
    found = list(_HASHES.finditer(text))[-MOST:] if "####" in text else []
    return [plain(each[1][:LONGEST]) for each in found if each.end() == len(text) or not _HEADING.match(each[1])]


def tags(text: str) -> list[str]:
    """What the last answer tags say, each read like a last line."""
    return [final.text if (final := last_line(each)) else each for each in _inside_tags(text)]


def _inside_tags(text: str) -> list[str]:
    if "</answer>" not in text.lower():
        return []
    return [found.strip() for found in _TAGS.findall(text)[-MOST:] if len(found) <= LONGEST]


def last_line(text: str) -> Final | None:
    """From the last line that says anything."""
    lines = text[-4 * LONGEST :].strip().splitlines()
    line = next((line.strip() for line in reversed(lines) if re.search(r"\w", line)), "")
    if not line or len(line) > LONGEST:
        return None
    said = [each for each in (plain(part) for part in _SAYS.split(line)[1:]) if each]
    if said:
        return Final(said[-1], LINE, tuple(said[:-1]))
    whole = plain(_LEAD.sub("", plain(line)))
    return Final(_short(whole), LINE) if whole else None


def _short(line: str) -> str:
    """What a sentence ends with: after its last "=", or its only number; else all of it."""
    for verb in (" is ", " equals ", " makes ", " gives "):  # 25 + 9 is 34
        told = plain(line.rpartition(verb)[2])
        if verb in line and _NUMBER.fullmatch(told):
            return told
    words = re.findall(r"(?<!\\)\b[a-zA-Z]{2,}", line)
    if len(words) < 3:
        return line
    if " = " in line:
        return plain(line.rpartition(" = ")[2])
    numbers = _NUMBER.findall(line)
    return numbers[0] if len(numbers) == 1 else line


def plain(text: str) -> str:
    """Without the marks around: spaces, bold, a final stop, mathematics' dollars."""
    text = text.strip().strip("*_`").strip().rstrip(";,.").strip().strip("*`").strip()
    text = re.sub(r"(?<=[a-zA-Z])!+$", "", text)
    text = re.sub(r"^\s*(?:is|:)\s+", "", text)
    for left, right in (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$")):
        inside = text[len(left) : -len(right)]
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right) and left not in inside:
            return inside.strip().rstrip(".").strip()
    return text
