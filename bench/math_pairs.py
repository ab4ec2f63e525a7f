"""How often the math scorer is right on pairs that are right or wrong by construction, by category.

    .venv/bin/python -m bench.math_pairs

Every pair is drawn by a rule that makes both texts from the same numbers, so nobody had to decide which are right. The last line
is JSON.
"""

import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

SEED = 6
TIMES = 6  # draws of each rule
TARGET = 0.99


@dataclass(frozen=True)
class Pair:
    """`said` in a box, judged by `wanted`; `is_right` by construction."""

    category: str
    wanted: str
    said: str
    is_right: bool


def pairs(seed: int = SEED) -> list[Pair]:
    """The same for the same seed."""
    draw = random.Random(seed)
    found = []
    for category, rule in RULES.items():
        for _ in range(TIMES):
            found += [Pair(category, wanted, said, right) for wanted, said, right in rule(draw)]
    return list(dict.fromkeys(found))


Drawn = Iterator[tuple[str, str, bool]]


def _integers(draw: random.Random) -> Drawn:
    n = draw.randrange(-900, 900)
    yield from ((str(n), f"{n}.0", True), (str(n), f"x = {n}", True), (str(n), str(n + 1), False), (str(n), f"{n}0", n == 0))
    yield str(n), str(-n), n == 0


def _fractions(draw: random.Random) -> Drawn:
    half = Fraction(draw.randrange(1, 40), draw.choice((2, 4, 5, 8, 16, 20)))
    top, bottom, k = half.numerator, half.denominator, draw.randrange(2, 6)
    yield f"{top}/{bottom}", f"\\frac{{{top * k}}}{{{bottom * k}}}", True
    yield f"\\frac{{{top}}}{{{bottom}}}", str(float(half)), True
    yield f"-\\frac{{{top}}}{{{bottom}}}", f"\\dfrac{{{-top}}}{{{bottom}}}", True
    yield f"{top}/{bottom}", f"{top}/{bottom + 1}", False
    yield f"{top}/{bottom}", f"{bottom}/{top}", top == bottom


def _decimals(draw: random.Random) -> Drawn:
    k = draw.choice((3, 6, 7, 9, 11, 13))
    value = Fraction(draw.randrange(1, k), k)
    digits = f"{float(value):.8f}"
    yield str(value), digits, True
    yield str(value), digits[:4], False
    yield str(value), f"{float(value) + 0.001:.8f}", False
    yield digits[:4], digits[:4] + "0", True


def _percents(draw: random.Random) -> Drawn:
    n = draw.randrange(2, 99)
    yield from (
        (str(n / 100), f"{n}\\%", True),
        (f"{n}\\%", f"{n}", True),
        (f"{n}\\%", f"{n}/100", True),
        (str(n), f"{n} percent", True),
    )
    yield from ((f"{n}%", f"{n + 1}%", False), (str(n / 100), f"{n / 100}%", False), (f"{n}%", str(n / 10), False))


def _thousands(draw: random.Random) -> Drawn:
    n = draw.randrange(1_000, 10**8)
    yield from ((str(n), f"{n:,}", True), (f"{n:,}", str(n), True), (str(n), f"{n:,}".replace(",", "{,}"), True))
    yield from ((str(n), f"{n:,}".replace(",", "\\,"), True), (str(n), f"{n + 1_000:,}", False), (str(n), f"{n * 10:,}", False))


def _units(draw: random.Random) -> Drawn:
    n, unit, other = draw.randrange(2, 500), *draw.sample(("cm", "m", "km", "kg", "seconds", "hours"), 2)
    yield from (
        (str(n), f"{n} {unit}", True),
        (f"{n} \\text{{ {unit}}}", str(n), True),
        (f"{n} {unit}", f"{n}\\,\\mathrm{{{unit}}}", True),
    )
    yield from ((f"{n} {unit}", f"{n} {other}", False), (str(n), f"{n + 1} {unit}", False), (f"{n}^\\circ", str(n), True))
    yield from ((str(n), f"\\${n}", True), (str(n), f"{n} apples", True), (str(n), f"{n + 2} apples", False))


def _intervals(draw: random.Random) -> Drawn:
    a, b = sorted(draw.sample(range(-30, 30), 2))
    yield f"[{a}, {b})", f"\\left[{a},{b}\\right)", True
    yield f"({a}, {b}]", f"{a} < x \\le {b}", True
    yield f"(-\\infty, {a}) \\cup ({b}, \\infty)", f"({b}, \\infty) \\cup (-\\infty, {a})", True
    yield f"x \\in [{a}, {b}]", f"[{a}.0, {b}]", True
    yield f"[{a}, {b}]", f"({a}, {b})", False
    yield f"[{a}, {b})", f"[{a}, {b}]", False
    yield f"[{a}, {b}]", f"[{a}, {b + 1}]", False
    yield f"({a}, \\infty)", f"x > {a}", True
    yield f"({a}, \\infty)", f"x \\ge {a}", False


def _sets(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-40, 40), 3)
    yield f"\\{{{a}, {b}, {c}\\}}", f"\\{{{c}, {a}, {b}\\}}", True
    yield f"{a}, {b}", f"x = {b} \\text{{ or }} x = {a}", True
    yield f"\\{{{a}, {b}\\}}", f"{a} and {b}", True
    yield f"\\{{{a}, {b}, {c}\\}}", f"\\{{{a}, {b}\\}}", False
    yield f"\\{{{a}, {b}\\}}", f"\\{{{a}, {b}, {c}\\}}", False
    yield str(a), f"{a}, {b}, {c}", False


def _tuples(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-40, 40), 3)
    yield f"({a}, {b}/2)", f"\\left({a}, \\frac{{{b}}}{{2}}\\right)", True
    yield f"({a}, {b}, {c})", f"({a},{b},{c})", True
    yield f"({a}, {b})", f"({b}, {a})", False
    yield f"({a}, {b}, {c})", f"({a}, {b})", False
    yield f"({a}, {b})", f"\\{{{a}, {b}\\}}", False


def _matrices(draw: random.Random) -> Drawn:
    a, b, c, d = draw.sample(range(-20, 20), 4)
    wanted = f"\\begin{{pmatrix}} {a} & {b} \\\\ {c} & {d} \\end{{pmatrix}}"
    yield wanted, wanted.replace("pmatrix", "bmatrix"), True
    yield wanted, f"[[{a}, {b}], [{c}, {d}]]", True
    yield wanted, f"\\begin{{pmatrix}} {2 * a}/2 & {b}.0 \\\\ {c} & {d} \\end{{pmatrix}}", True
    yield wanted, f"\\begin{{pmatrix}} {a} & {c} \\\\ {b} & {d} \\end{{pmatrix}}", False
    yield wanted, f"\\begin{{pmatrix}} {a} & {b} \\end{{pmatrix}}", False


def _expressions(draw: random.Random) -> Drawn:
    a, b = draw.randrange(2, 12), draw.randrange(2, 12)
    yield f"(x+{a})(x-{b})", f"x^2 + {a - b}x - {a * b}".replace("+ -", "- "), True
    yield f"{a}x + {b}y", f"{b}y + {a} \\cdot x", True
    yield f"\\frac{{{a}}}{{x}}", f"{a}x^{{-1}}", True
    yield f"\\sqrt{{{a * a * b}}}", f"{a}\\sqrt{{{b}}}", True
    yield f"\\sin(2x) \\cdot {a}", f"{2 * a} \\sin x \\cos x", True
    yield f"\\ln(x^{{{a}}})", f"{a} \\ln y", False
    yield f"(x+{a})^2", f"x^2 + {a * a}", False
    yield f"{a}\\sqrt{{x}}", f"\\sqrt{{{a}x}}", False
    yield f"\\frac{{{a}\\pi}}{{{b}}}", f"{a}*pi/{b}", True
    yield f"\\frac{{1}}{{\\sqrt{{{b}}}}}", f"\\frac{{\\sqrt{{{b}}}}}{{{b}}}", True


def _equations(draw: random.Random) -> Drawn:
    a, b, k = draw.randrange(2, 12), draw.randrange(2, 12), draw.randrange(2, 5)
    yield f"y = {a}x + {b}", f"y - {a}x = {b}", True
    yield f"{a}x + {b}y = 1", f"{k * a}x + {k * b}y = {k}", True
    yield f"y = {a}x + {b}", f"{a}x + {b}", True
    yield f"x = {a}", f"{a} = x", True
    yield f"y = {a}x + {b}", f"y = {a}x - {b}", False
    yield f"x = {a}", f"y = {a}", False
    yield f"x^2 + y^2 = {a}", f"x^2 - y^2 = {a}", False


def _inequalities(draw: random.Random) -> Drawn:
    a, b = draw.randrange(-20, 0), draw.randrange(1, 20)
    yield f"x > {a}", f"{a} < x", True
    yield f"x \\ge {b}", f"2x \\geq {2 * b}", True
    yield f"x < {b}", f"-x > {-b}", True
    yield f"{a} < x \\le {b}", f"{b} \\geq x > {a}", True
    yield f"x > {a}", f"x < {a}", False
    yield f"x > {a}", f"x \\ge {a}", False
    yield f"{a} < x < {b}", f"{a} < x \\le {b}", False


def _plus_minus(draw: random.Random) -> Drawn:
    a, b = draw.randrange(1, 20), draw.choice((2, 3, 5, 7))
    yield f"\\pm {a}", f"{a}, -{a}", True
    yield f"x = \\pm {a}", f"\\{{-{a}, {a}\\}}", True
    yield f"{a} \\pm \\sqrt{{{b}}}", f"{a} - \\sqrt{b}, {a} + \\sqrt{b}", True
    yield f"\\pm {a}", str(a), False
    yield str(a), f"\\pm {a}", False


def _scientific(draw: random.Random) -> Drawn:
    m, e = draw.randrange(11, 99), draw.randrange(3, 9)
    yield f"{m * 10 ** (e - 1)}", f"{m / 10} \\times 10^{{{e}}}", True
    yield f"{m / 10} \\times 10^{e}", f"{m / 10}e{e}", True
    yield f"{m} \\times 10^{{-{e}}}", f"{m}e-{e}", True
    yield f"{m / 10} \\times 10^{e}", f"{m / 10} \\times 10^{e + 1}", False
    yield f"{m / 10} \\times 10^{e}", f"{m / 10} \\times 10^{{-{e}}}", False


def _mixed(draw: random.Random) -> Drawn:
    whole, bottom = draw.randrange(2, 12), draw.choice((3, 4, 7, 8))
    top = draw.randrange(1, bottom)
    value = whole + Fraction(top, bottom)
    yield str(value), f"{whole}\\frac{{{top}}}{{{bottom}}}", True
    yield f"{whole} {top}/{bottom}", str(value), True
    yield f"-{whole}\\frac{{{top}}}{{{bottom}}}", str(-value), True
    yield f"{whole}\\frac{{{top}}}{{{bottom}}}", str(whole * Fraction(top, bottom)), False
    yield str(value), f"{whole + 1}\\frac{{{top}}}{{{bottom}}}", False


def _words(draw: random.Random) -> Drawn:
    right, wrong = draw.sample(("Tuesday", "even", "parabola", "isosceles", "Alice", "decreasing", "none of them"), 2)
    yield from (
        (right, f"\\text{{{right}}}", True),
        (f"\\text{{{right}}}", right.lower(), True),
        (right, f"\\text{{{wrong}}}", False),
    )
    yield right, f"\\text{{{right} or {wrong}}}", False


def _choices(draw: random.Random) -> Drawn:
    right, wrong = draw.sample("ABCDE", 2)
    yield from ((right, f"\\text{{({right})}}", True), (f"({right})", right, True), (right, f"{right}. 12", True))
    yield from ((right, wrong, False), (right, f"{right}, {wrong}", False), (right, "A, B, C, D, E", False))


RULES = {
    "integers": _integers, "fractions": _fractions, "decimals": _decimals, "percents": _percents, "thousands": _thousands,
    "units": _units, "intervals": _intervals, "sets": _sets, "tuples": _tuples, "matrices": _matrices,
    "expressions": _expressions, "equations": _equations, "inequalities": _inequalities, "plus or minus": _plus_minus,
    "scientific": _scientific, "mixed numbers": _mixed, "words": _words, "choices": _choices,
}  # fmt: skip


def misjudged(judged: list[Pair]) -> list[Pair]:
    """The pairs that the scorer judges otherwise than they were made."""
    from apps.rewards.scorers import RolloutView, TaskView, find

    scorer = find("math")

    def value(pair: Pair) -> float | None:
        return scorer.judge([RolloutView(f"So it is \\boxed{{{pair.said}}}.")], TaskView((), {"value": pair.wanted}))[0].value

    return [pair for pair in judged if value(pair) != pair.is_right]


def main() -> int:
    made, began = pairs(), time.perf_counter()
    wrong = misjudged(made)
    seconds = time.perf_counter() - began
    by_category: dict[str, list[bool]] = defaultdict(list)
    for pair in made:
        by_category[pair.category].append(pair not in wrong)
    for category, right in by_category.items():
        print(f"{category:15} {sum(right):4} of {len(right):4}  {sum(right) / len(right):7.2%}")
    for pair in wrong:
        print(f"misjudged: wanted {pair.wanted}, said {pair.said}, made to be {'right' if pair.is_right else 'wrong'}")
    accuracy = 1 - len(wrong) / len(made)
    told = {category: round(sum(right) / len(right), 4) for category, right in by_category.items()}
    print(json.dumps({"pairs": len(made), "accuracy": round(accuracy, 4), "seconds": round(seconds, 2), "categories": told}))
    return 0 if accuracy >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
