"""Time patterns against long runs of their own characters: `python -m
tests.architecture.regex_timing`.

On standard input a JSON list of [pattern, flags, method]; on standard output a JSON list of
[number, seconds, text] of the slow ones. Runs in its own process, as a pattern may not end.
"""

import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from itertools import combinations

LENGTH = 8_000  # characters: a quadratic pattern takes a third of a second or more
SLOW_S = 0.1  # processor time; a linear pattern takes less than ten milliseconds
# A quadratic pattern takes a sixteenth of the time on a quarter of the text. Most patterns take
# far less there, and are not tried on the whole text.
SHORT = LENGTH // 4
SUSPECT_S = SLOW_S / 50
GIVEN_UP_S = 1.0
CLASSES = {
    "d": "1",
    "w": "a",
    "s": " ",
    "S": "x",
    "W": "!",
    "D": "x",
    "n": "\n",
    "t": "\t",
    ".": "x",
}
ENDS = ("", "\0", "!")
MAX_PAIRED = 9  # characters of a pattern that are tried in pairs


class TooSlow(Exception):
    """The alarm fired while a pattern was being matched."""


def characters_of(pattern: str) -> list[str]:
    """Return one character of each kind that the pattern mentions."""
    escaped = re.findall(r"\\(.)", pattern)
    plain = re.sub(r"\\.|\(\?[a-zA-Z<=!:]|\{[0-9,]*\}|[\[\]()|*+?^$]", "", pattern)
    found = [CLASSES.get(one, one) for one in escaped]
    found += ["x" if one == "." else one for one in plain]
    return list(dict.fromkeys([*found, " ", "a", "1", "\n"]))[:40]


def words_of(pattern: str) -> list[str]:
    """Return literal words of the pattern, which it needs before its repetitions begin."""
    return re.findall(r"[A-Za-z]{2,}[:/<=]*|[<#`$*_~-]{1,3}", pattern)[:6]


def attacks(pattern: str, length: int) -> Iterator[str]:
    characters = characters_of(pattern)
    for character in characters:
        yield from (character * length + end for end in ENDS)
    for pair in combinations(characters[:MAX_PAIRED], 2):
        yield "".join(pair) * (length // 2) + ENDS[1]
    for word in words_of(pattern):
        yield word * (length // len(word))
        yield from (word + character * length for character in characters[:MAX_PAIRED])


def seconds(expression: re.Pattern, method: str, text: str) -> float:
    began = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP_S)
        try:
            _apply(expression, method, text)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except TooSlow:  # also if the alarm fired just before it was cancelled
        pass
    return time.process_time() - began


def _apply(expression: re.Pattern, method: str, text: str) -> None:
    if method != "search":
        getattr(expression, method)(text)
        return
    for _ in expression.finditer(text):
        pass


def slowest(pattern: str, flags: int, method: str) -> tuple[float, str]:
    """Return the first slow attack; else the last one."""
    expression = re.compile(pattern, flags)
    taken = 0.0
    text = ""
    for short, text in zip(attacks(pattern, SHORT), attacks(pattern, LENGTH), strict=True):
        taken = seconds(expression, method, short)
        if taken > SUSPECT_S:
            taken = seconds(expression, method, text)
        if taken > SLOW_S:
            break
    return taken, f"{text[:12]!r}…{text[-3:]!r}"


def _ring(*_: object) -> None:
    raise TooSlow


def main() -> None:
    signal.signal(signal.SIGVTALRM, _ring)
    slow = []
    for number, (pattern, flags, method) in enumerate(json.load(sys.stdin)):
        taken, text = slowest(pattern, flags, method)
        if taken > SLOW_S:
            slow.append([number, round(taken, 2), text])
    json.dump(slow, sys.stdout)


if __name__ == "__main__":
    main()
