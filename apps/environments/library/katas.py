"""Small functions, each with ways to break it and calls that show it.

Deterministic for each seed.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.rewards.sandbox import Call, Outcome

SHOWN = 3
HIDDEN = 5  # numbers of shown and hidden calls
TRIES = 50  # the most sets of calls sampled until one shows the mistake


@dataclass(frozen=True)
class Kata:
    """A correct function with a sampled small number `k`, ways to break it, and arguments."""

    name: str
    right: str
    breaks: tuple[tuple[str, str], ...]
    draw: Callable[[random.Random], tuple]


@dataclass(frozen=True)
class Exercise:
    """A broken function, and calls with the expected and the actual results.

    The first `SHOWN` calls may be shown.
    """

    name: str
    right: str
    broken: str
    calls: tuple[Call, ...]
    expected: tuple[object, ...]
    outcomes: tuple[Outcome, ...]


def _numbers(draw: random.Random) -> list[int]:
    return [draw.randint(-9, 20) for _ in range(draw.randint(2, 7))]


def _draw_word(draw: random.Random) -> str:
    return "".join(draw.choice("aabcdeeio") for _ in range(draw.randint(2, 9)))


KATAS = (
    Kata(
        "total_above",
        "def total_above(numbers):\n    total = 0\n    for number in numbers:\n        if number >"
        " k:\n            total += number\n    return total\n",
        (
            ("total = 0", "total = 1"),
            ("> k", "< k"),
            ("+=", "-="),
            ("    return total", "        return total"),
        ),
        lambda draw: (_numbers(draw),),
    ),
    Kata(
        "count_multiples",
        "def count_multiples(numbers):\n    found = 0\n    for number in numbers:\n        if"
        " number % k == 0:\n            found += 1\n    return found\n",
        (
            ("== 0", "!= 0"),
            ("found += 1", "found += number"),
            ("% k", "// k"),
            ("found = 0", "found = k"),
        ),
        lambda draw: (_numbers(draw),),
    ),
    Kata(
        "largest",
        "def largest(numbers):\n    best = numbers[0]\n    for number in numbers[1:]:\n        if"
        " number > best:\n            best = number\n    return best + k\n",
        (
            ("> best", "< best"),
            ("numbers[0]", "0"),
            ("best + k", "best"),
            ("best = number\n", "best += number\n"),
        ),
        lambda draw: (_numbers(draw),),
    ),
    Kata(
        "shifted",
        "def shifted(items):\n    start = k % len(items)\n    return items[start:] +"
        " items[:start]\n",
        (
            ("items[:start]", "items[start:]"),
            ("% len(items)", "% 2 + 1"),
            ("items[start:] +", "items[start + 1:] +"),
        ),
        lambda draw: (_numbers(draw),),
    ),
    Kata(
        "is_palindrome",
        "def is_palindrome(word):\n    for place in range(len(word) // 2):\n"
        "        if word[place] != word[-place - 1]:\n            return False\n    return True\n",
        (
            ("!=", "=="),
            ("[-place - 1]", "[-place]"),
            ("    return True", "    return False"),
            ("len(word) // 2", "1"),
        ),
        lambda draw: (
            (lambda word: word + word[::-1] if draw.random() < 0.5 else word)(_draw_word(draw)),
        ),
    ),
    Kata(
        "count_letters",
        "def count_letters(word):\n    counts = {}\n    for letter in word:\n"
        "        counts[letter] = counts.get(letter, 0) + 1\n    return counts\n",
        (("get(letter, 0)", "get(letter, 1)"), ("+ 1", "+ 2"), ("counts.get(letter, 0) + 1", "1")),
        lambda draw: (_draw_word(draw),),
    ),
    Kata(
        "every_nth",
        "def every_nth(items, start):\n    found = []\n    for place in range(start, len(items),"
        " k):\n        found.append(items[place])\n    return found\n",
        (
            ("range(start,", "range(0,"),
            (", k)", ")"),
            ("append(items[place])", "append(place)"),
            ("len(items)", "len(items) - 1"),
        ),
        lambda draw: (_numbers(draw), draw.randint(0, 2)),
    ),
    Kata(
        "clamped",
        "def clamped(numbers, low):\n    high = low + k\n"
        "    return [min(max(number, low), high) for number in numbers]\n",
        (
            ("min(max(", "max(min("),
            ("low + k", "low"),
            ("max(number, low)", "number"),
            (", high)", ", low)"),
        ),
        lambda draw: (_numbers(draw), draw.randint(-3, 6)),
    ),
)


def exercise(seed: int) -> Exercise:
    """Return a kata with one bug, and calls of which a shown one reveals the bug."""
    draw = random.Random(seed)
    kata = draw.choice(KATAS)
    number = str(draw.randint(2, 5))
    right = _insert_number(kata.right, number)
    broken = _insert_number(kata.right.replace(*draw.choice(kata.breaks), 1), number)
    for _ in range(TRIES):
        calls = tuple(Call(kata.name, kata.draw(draw)) for _ in range(SHOWN + HIDDEN))
        expected = tuple(outcome.value for outcome in _run_trusted(right, calls))
        outcomes = tuple(_run_trusted(broken, calls))
        if any(map(is_wrong, outcomes[:SHOWN], expected)):
            return Exercise(kata.name, right, broken, calls, expected, outcomes)
    raise AssertionError(f"no call shows what is broken in {broken!r}")


def _insert_number(code: str, number: str) -> str:
    return re.sub(r"\bk\b", number, code)


def _run_trusted(code: str, calls: Sequence[Call]) -> list[Outcome]:
    """Run our own code, without a sandbox, and return the results of these calls."""
    names: dict = {}
    exec(code, names)  # noqa: S102  (a constant of this file)
    return [_outcome(names[call.function], call.arguments) for call in calls]


def _outcome(function: Callable, arguments: tuple) -> Outcome:
    try:
        return Outcome(function(*arguments))
    except (IndexError, TypeError, ValueError) as error:
        return Outcome(error=f"{type(error).__name__}: {error}")


def is_wrong(outcome: Outcome, expected: object) -> bool:
    """Tell whether the result differs in JSON, where 1, 1.0 and true are three values."""
    return bool(outcome.error) or json.dumps(outcome.value, sort_keys=True) != json.dumps(
        expected, sort_keys=True
    )
