"""Mathematics with exact answers of many forms: fractions, percents, equations, sets, intervals,
points and formulas.
"""

import random
from collections.abc import Iterator
from fractions import Fraction

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

FORMS = 8
SPACE = 400_000
ASKED = "{} Put the final answer in \\boxed{{}}."


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different questions of the domain "math".

    The answer is {"value": the answer as text} for the math scorer.
    """
    for number in draw_distinct(SPACE, size, seed):
        question, value, form = build_numbered_question(number)
        yield TaskRow(
            user_message(ASKED.format(question)), {"value": value}, {"form": form}, domain="math"
        )


def build_numbered_question(number: int) -> tuple[str, str, str]:
    """Return question, answer and form; each number gives a different question."""
    quotient, form = divmod(number, FORMS)
    mark = quotient + 11
    draw = random.Random(number)
    a = draw.randrange(2, 10)
    b = draw.randrange(2, 10)
    match form:
        case 0:
            return (
                f"What is {mark}/{a} + {b}/{a + 1}?",
                str(Fraction(mark, a) + Fraction(b, a + 1)),
                "fraction",
            )
        case 1:
            return f"What is {10 * a}% of {mark}?", str(Fraction(10 * a * mark, 100)), "percent"
        case 2:
            return f"Solve {a}x + {mark} = {b}.", f"x = {Fraction(b - mark, a)}", "equation"
        case 3:
            return (
                f"Find all solutions of x^2 - {mark + a}x + {mark * a} = 0.",
                f"\\{{{a}, {mark}\\}}",
                "set",
            )
        case 4:
            question = f"For which x is {a} < x + {mark} \\le {a + b}? Answer with an interval."
            return question, f"({a - mark}, {a + b - mark}]", "interval"
        case 5:
            return (
                f"Which point is in the middle of ({mark}, {a}) and ({b}, {mark})?",
                _point(mark + b, a + mark),
                "point",
            )
        case 6:
            return f"Expand (x + {mark})(x - {a}).", f"x^2 + ({mark - a})x - {mark * a}", "formula"
    return (
        f"What is the derivative of {a}x^{b} + {mark}x?",
        f"{a * b}x^{{{b - 1}}} + {mark}",
        "formula",
    )


def _point(x: int, y: int) -> str:
    return f"({Fraction(x, 2)}, {Fraction(y, 2)})"
