"""Rules that draw answers to mathematics, right or wrong by construction, by class.

Each rule yields (wanted answer, text of the answer, whether it is right); those of `ASKED` yield
the question first.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

Drawn = Iterator[tuple[str, str, bool]]
Rule = Callable[[random.Random], Drawn]


def _integers(draw: random.Random) -> Drawn:
    n = draw.randrange(-900, 900)
    yield from (
        (str(n), f"{n}.0", True),
        (str(n), f"x = {n}", True),
        (str(n), str(n + 1), False),
        (str(n), f"{n}0", n == 0),
    )
    yield str(n), str(-n), n == 0


def _fractions(draw: random.Random) -> Drawn:
    half = Fraction(draw.randrange(1, 40), draw.choice((2, 4, 5, 8, 16, 20)))
    top = half.numerator
    bottom = half.denominator
    k = draw.randrange(2, 6)
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
    yield str(value), digits[:4], Fraction(digits[:4]) == value
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
    yield from (
        (f"{n}%", f"{n + 1}%", False),
        (str(n / 100), f"{n / 100}%", False),
        (f"{n}%", str(n / 10), False),
    )


def _thousands(draw: random.Random) -> Drawn:
    n = draw.randrange(1_000, 10**8)
    yield from (
        (str(n), f"{n:,}", True),
        (f"{n:,}", str(n), True),
        (str(n), f"{n:,}".replace(",", "{,}"), True),
    )
    yield from (
        (str(n), f"{n:,}".replace(",", "\\,"), True),
        (str(n), f"{n + 1_000:,}", False),
        (str(n), f"{n * 10:,}", False),
    )


def _units(draw: random.Random) -> Drawn:
    n, unit, other = (
        draw.randrange(2, 500),
        *draw.sample(("cm", "m", "km", "kg", "seconds", "hours"), 2),
    )
    yield from (
        (str(n), f"{n} {unit}", True),
        (f"{n} \\text{{ {unit}}}", str(n), True),
        (f"{n} {unit}", f"{n}\\,\\mathrm{{{unit}}}", True),
    )
    yield from (
        (f"{n} {unit}", f"{n} {other}", False),
        (str(n), f"{n + 1} {unit}", False),
        (f"{n}^\\circ", str(n), True),
    )
    yield from (
        (str(n), f"\\${n}", True),
        (str(n), f"{n} apples", True),
        (str(n), f"{n + 2} apples", False),
    )


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
    a = draw.randrange(2, 12)
    b = draw.randrange(2, 12)
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
    a = draw.randrange(2, 12)
    b = draw.randrange(2, 12)
    k = draw.randrange(2, 5)
    yield f"y = {a}x + {b}", f"y - {a}x = {b}", True
    yield f"{a}x + {b}y = 1", f"{k * a}x + {k * b}y = {k}", True
    yield f"y = {a}x + {b}", f"{a}x + {b}", True
    yield f"x = {a}", f"{a} = x", True
    yield f"y = {a}x + {b}", f"y = {a}x - {b}", False
    yield f"x = {a}", f"y = {a}", False
    yield f"x^2 + y^2 = {a}", f"x^2 - y^2 = {a}", False


def _inequalities(draw: random.Random) -> Drawn:
    a = draw.randrange(-20, 0)
    b = draw.randrange(1, 20)
    yield f"x > {a}", f"{a} < x", True
    yield f"x \\ge {b}", f"2x \\geq {2 * b}", False
    yield f"x < {b}", f"-x > {-b}", False
    yield f"{a} < x \\le {b}", f"{b} \\geq x > {a}", True
    yield f"x > {a}", f"x < {a}", False
    yield f"x > {a}", f"x \\ge {a}", False
    yield f"{a} < x < {b}", f"{a} < x \\le {b}", False


def _plus_minus(draw: random.Random) -> Drawn:
    a = draw.randrange(1, 20)
    b = draw.choice((2, 3, 5, 7))
    yield f"\\pm {a}", f"{a}, -{a}", True
    yield f"x = \\pm {a}", f"\\{{-{a}, {a}\\}}", True
    yield f"{a} \\pm \\sqrt{{{b}}}", f"{a} - \\sqrt{b}, {a} + \\sqrt{b}", True
    yield f"\\pm {a}", str(a), False
    yield str(a), f"\\pm {a}", False


def _scientific(draw: random.Random) -> Drawn:
    m = draw.randrange(11, 99)
    e = draw.randrange(3, 9)
    yield f"{m * 10 ** (e - 1)}", f"{m / 10} \\times 10^{{{e}}}", True
    yield f"{m / 10} \\times 10^{e}", f"{m / 10}e{e}", True
    yield f"{m} \\times 10^{{-{e}}}", f"{m}e-{e}", True
    yield f"{m / 10} \\times 10^{e}", f"{m / 10} \\times 10^{e + 1}", False
    yield f"{m / 10} \\times 10^{e}", f"{m / 10} \\times 10^{{-{e}}}", False


def _mixed(draw: random.Random) -> Drawn:
    whole = draw.randrange(2, 12)
    bottom = draw.choice((3, 4, 7, 8))
    top = draw.randrange(1, bottom)
    value = whole + Fraction(top, bottom)
    yield str(value), f"{whole}\\frac{{{top}}}{{{bottom}}}", True
    yield f"{whole} {top}/{bottom}", str(value), True
    yield f"-{whole}\\frac{{{top}}}{{{bottom}}}", str(-value), True
    yield f"{whole}\\frac{{{top}}}{{{bottom}}}", str(whole * Fraction(top, bottom)), False
    yield str(value), f"{whole + 1}\\frac{{{top}}}{{{bottom}}}", False


def _words(draw: random.Random) -> Drawn:
    right, wrong = draw.sample(
        ("Tuesday", "even", "parabola", "isosceles", "Alice", "decreasing", "none of them"), 2
    )
    yield from (
        (right, f"\\text{{{right}}}", True),
        (f"\\text{{{right}}}", right.lower(), True),
        (right, f"\\text{{{wrong}}}", False),
    )
    yield right, f"\\text{{{right} or {wrong}}}", False


def _choices(draw: random.Random) -> Drawn:
    right, wrong = draw.sample("ABCDE", 2)
    yield from (
        (right, f"\\text{{({right})}}", True),
        (f"({right})", right, True),
        (right, f"{right}. 12", True),
    )
    yield from (
        (right, wrong, False),
        (right, f"{right}, {wrong}", False),
        (right, "A, B, C, D, E", False),
    )


def _signs(draw: random.Random) -> Drawn:
    a, b = draw.sample("abcmnpquvw", 2)
    n = draw.randrange(2, 9)
    yield f"-\\vec{{{a}}}", f"\\vec{{{a}}}", False
    yield f"\\vec{{{a}}}-\\vec{{{b}}}", f"-\\vec{{{b}}}+\\vec{{{a}}}", True
    yield f"\\vec{{{a}}}-\\vec{{{b}}}", f"\\vec{{{a}}}\\vec{{{b}}}", False
    yield f"-\\sum_{{j=1}}^{{n}} {a}_j", f"\\sum_{{j=1}}^{{n}} {a}_j", False
    yield f"\\sum_{{j=1}}^{{n}} {a}_j", f"\\sum_{{k=1}}^{{n}} {a}_k", True
    yield f"\\sum_{{j={n}}}^{{m}} {a}_j", f"\\sum_{{j={n + 1}}}^{{m}} {a}_j", False
    yield f"-\\lim_{{t\\to {n}}} {a}(t)", f"\\lim_{{t\\to {n}}} {a}(t)", False
    yield f"-\\overline{{{a.upper()}{b.upper()}}}", f"\\overline{{{a.upper()}{b.upper()}}}", False
    yield f"10.{n}.0.2", f"10{n}.0.2", False
    yield f"x\\equiv {n} \\pmod{{{n + 9}}}", f"x\\equiv {2 * n + 9} \\pmod{{{n + 9}}}", True
    yield f"x\\equiv {n} \\pmod{{{2 * n + 5}}}", f"x\\equiv -{n} \\pmod{{{2 * n + 5}}}", False


def _bases(draw: random.Random) -> Drawn:
    base = draw.randrange(2, 8)
    value = draw.randrange(20, 900)
    digits = ""
    rest = value
    while rest:
        digits = str(rest % base) + digits
        rest = rest // base
    yield f"{digits}_{base}", f"{digits}_{{{base}}}", True
    yield f"{digits}_{base}", digits, True
    yield f"{digits}_{base}", f"{digits}_{base + 1}", False
    yield f"{digits}_{base}", f"{digits[0]}.{digits[1:]}_{base}", False
    yield f"{digits}_{base}", str(value), False


def _repeating(draw: random.Random) -> Drawn:
    period = f"{draw.randrange(1, 99):02}"
    if period in ("11", "22", "33", "44", "55", "66", "77", "88"):
        period = "27"
    value = Fraction(int(period), 99)
    yield str(value), f"0.\\overline{{{period}}}", True
    yield str(value), f"0.({period})", True
    yield str(value), f"0.{period * 3}\\ldots", True
    yield str(value), f"0.{period}", False
    yield f"0.\\overline{{{period}}}", str(value), True
    yield f"0.{period}", f"0.\\overline{{{period}}}", False


def _ratios(draw: random.Random) -> Drawn:
    a = draw.randrange(2, 9)
    b = draw.randrange(10, 19)
    c = draw.randrange(21, 29)
    k = 3
    yield f"{a}:{b}:{c}", f"{k * a}:{k * b}:{k * c}", True
    yield f"{a}:{b}:{c}", f"{a}:{c}:{b}", False
    yield f"{a}:{b}", f"\\frac{{{a}}}{{{b}}}", True
    yield f"A:B={a}:{b}", f"{a}:{b}", True
    yield f"{a}:{b}", f"{b}:{a}", False
    yield f"{a}:{b}:{c}", f"{a}:{b * c}", False


def _named(draw: random.Random) -> Drawn:
    n, m = draw.sample(range(2, 60), 2)
    for name in ("f(3)", "|CD|", "\\sin B", "\\frac{KL}{MN}", "a_{10}", "P(A)", "\\angle ABC"):
        yield f"{name}={n}", str(n), True
        yield f"{name}={n}", str(m), False
        yield str(n), f"{name}={n}", True
    yield f"AB={n},CD={m}", f"{n}, {m}", True
    yield f"AB={n},CD={m}", f"{m}, {n}", False
    yield f"(x,y)=({n},{m})", f"({n},{m})", True
    yield f"0<g(x)<{n}", f"(0,{n})", True


def _real_sets(draw: random.Random) -> Drawn:
    a, b, c = sorted(draw.sample(range(-30, 30), 3))
    yield f"[{a},{b}]\\cup[{b},{c}]", f"[{a},{c}]", True
    yield f"[{a},{b})\\cup({b},{c}]", f"[{a},{c}]", False
    yield f"x \\neq {a}", f"(-\\infty,{a})\\cup({a},\\infty)", True
    yield f"\\mathbb{{R}}\\setminus\\{{{a}\\}}", f"x\\ne {a}", True
    yield f"\\{{x : x>{a}\\}}", f"({a},\\infty)", True
    yield f"\\{{x : x>{a}\\}}", f"[{a},\\infty)", False
    yield f"x<{a} \\text{{ or }} x>{b}", f"({b},\\infty)\\cup(-\\infty,{a})", True
    yield f"({a},{c})", f"x>{a} \\text{{ and }} x<{c}", True
    yield f"x > {a}", f"y > {a}", False
    yield "\\emptyset", "\\{\\}", True
    yield "\\emptyset", f"\\{{{a}\\}}", False


def _printed(draw: random.Random) -> Drawn:
    k = draw.choice((3, 6, 7, 9, 11, 13))
    n = draw.randrange(2, 50)
    root = draw.choice((2, 3, 5, 7, 10))
    yield f"{n}/{k}" if n % k else f"{n}/{k + 100}", repr(n / k if n % k else n / (k + 100)), True
    yield f"\\sqrt{{{root}}}", repr(root**0.5), True
    yield f"{n}\\pi", repr(n * 3.141592653589793), True
    yield f"\\sqrt{{{root}}}", f"{root**0.5:.7f}", True
    yield f"\\sqrt{{{root}}}", f"{root**0.5:.2f}", False
    yield f"\\sqrt{{{root}}}", repr(root**0.5 + 1e-7), False
    yield f"{n}/10", repr(n / 10), True


def _approximations(draw: random.Random) -> Drawn:
    k = draw.choice((3, 7, 9, 11))
    n = draw.randrange(1, k)
    yield f"\\frac{{{n}}}{{{k}}}", f"\\frac{{{n}}}{{{k}}} \\approx {n / k:.3f}", True
    yield f"\\frac{{{n}}}{{{k}}}", f"\\frac{{{n}}}{{{k}}} \\approx {n / k + 0.1:.3f}", False
    yield f"\\frac{{{n}}}{{{k}}}", f"x = {n}/{k} \\approx {n / k:.2f}", True
    yield f"\\frac{{{n}}}{{{k}}}", f"\\approx {n / k:.2f}", False


def _wrapped(draw: random.Random) -> Drawn:
    n = draw.randrange(10, 999)
    wide = "".join(chr(ord(sign) + 0xFEE0) for sign in str(n))
    letter = draw.choice("ABCDE")
    for answer in (
        f"\\text{{{n}}}",
        f"\\textbf{{({n:03})}}",
        f"\\color{{red}}{{{n}}}",
        f"\\boxed{{{n}}}",
        f"\\({n}\\)",
        f"${n}$",
        f"\\mathbf{{{n}}}",
        f"\\textbf{{({letter})}}\\ {n}",
        f"{{{n}}}",
        wide,
        f"{n}\\,",
        f"\\displaystyle {n}",
        f"\\left({n}\\right)",
    ):
        yield str(n), answer, True
        yield str(n + 1), answer, False
    yield f"\\text{{{letter}}}", f"({letter})", True


def _converted(draw: random.Random) -> Drawn:
    n = draw.randrange(2, 90)
    for large, small, size in (
        ("m", "cm", 100),
        ("km", "m", 1000),
        ("kg", "g", 1000),
        ("hours", "minutes", 60),
        ("feet", "inches", 12),
    ):
        yield f"{n} {large}", f"{n * size} {small}", True
        yield f"{n} {large}", f"{n} {small}", False
    yield f"\\${n}", f"{n * 100} cents", True
    yield f"\\${n}", f"{n} cents", False
    yield f"{n} hours", f"{n} pesos", False
    yield f"{n} \\text{{ am}}", f"{n} \\text{{ pm}}", False
    yield f"{n} \\text{{ gain}}", f"{n} \\text{{ loss}}", False
    yield f"{n} apples", f"{n} \\text{{ apples}}", True


def _unsolved(draw: random.Random) -> Drawn:
    a = draw.randrange(2, 9)
    x = draw.randrange(2, 30)
    b = draw.randrange(2, 30)
    name = draw.choice("xykt")
    yield str(x), f"{a}{name}={a * x}", False
    yield f"{name}={x}", f"{a}{name}+{b}={a * x + b}", False
    yield f"{name}>{x}", f"{a}{name}+{b}>{a * x + b}", False
    yield str(x * x), f"{name}^2={x * x}", False
    yield str(x), f"0{name}={x}", False
    yield str(a * b), f"{a}*{b}", False
    yield str(x + b), f"{x}+{b}", False
    yield str(2**a), f"2^{{{a}}}", False
    yield str(x), f"\\sqrt{{{x * x}}}", False
    yield f"{name}={x}", f"{x}={name}", True
    yield str(x * b), f"{x}\\cdot {b} = {x * b}", True
    yield str(x), f"{name}={x}", True


def _several_letters(draw: random.Random) -> Drawn:
    right, second, third = draw.sample("ABCDE", 3)
    yield right, f"({right}), ({second}), ({third})", False
    yield right, f"{right}: 3, {second}: 4", False
    yield right, f"{right} or {second}", False
    yield right, f"\\textbf{{({right})}}", True
    yield right, f"{right}: 12", True


def _vectors(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-9, 20), 3)
    column = f"\\begin{{pmatrix}}{a}\\\\{b}\\\\{c}\\end{{pmatrix}}"
    yield column, f"({a}, {b}, {c})", True
    yield f"({a},{b},{c})", column, True
    yield column, f"({a}, {c}, {b})", False
    yield f"({a},{b})", f"P({a},{b})", True
    yield f"({a},{b})", f"\\langle {a}, {b}\\rangle", True
    yield f"({a},{b})", f"x={a}, y={b}", True


def _boxes(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-40, 60), 3)
    yield f"{a}, {b}", f"The roots are \\boxed{{{b}}} and \\boxed{{{a}}}.", True
    yield f"k={a}, n={b}", f"$\\boxed{{k = {a}}}$ and $\\boxed{{n = {b}}}$", True
    yield f"{a}, {b}", f"\\boxed{{{a}}}, \\boxed{{{b}}} and \\boxed{{{c}}}", False
    yield str(a), f"\\boxed{{{b}}} or \\boxed{{{a}}}", False
    yield str(a), f"Put it into \\boxed{{}}. \\boxed{{{a}}}", True
    yield str(a), f"first \\boxed{{{a}}}, no: \\boxed{{", False
    yield str(a), f"<answer>\\boxed{{{a}}}</answer>", True
    yield str(a), f"<think>\\boxed{{{a}}}</think> I do not know.", False
    yield str(a), f"<think>\\boxed{{{b}}}</think> \\boxed{{{a}}}", True
    yield str(a), f"\\boxed{{{a}}} … so \\boxed{{{a}}}", True


def _sentences(draw: random.Random) -> Drawn:
    n = draw.randrange(20, 900)
    m = n + draw.randrange(1, 9)
    for answer in (
        "Final Answer: The final answer is ${}$. I hope it is correct.",
        "So that is all.\nA: {}",
        "Thus, x = {}, as required.",
        "So Bea pays ${}.",
        "La réponse est {}.",
        "答案是{}。",
        "Die Antwort ist {}.",
        "La respuesta es {}.",
        "答えは{}です。",
        "Ответ: {}.",
        "#### {}",
        "**Answer:** {}",
        "So she has **{}** apples.",
        "The answer is ${}$.\n\nI hope this helps you!",
        "The total is \\({}\\).",
        "So 7 + 8 + 9 gives ${}$.",
        "It is {}.",
        "<answer>{}</answer>",
    ):
        yield str(n), answer.replace("{}", str(n)), True
        yield str(n), answer.replace("{}", str(m)), False
    yield str(n), f"The answer is not {n}.", False
    yield str(n), f"The answer is {n} or {m}.", False
    yield str(n), f"We have that 3x = {n}.", False
    yield f"({n},{m})", f"So the pair $(x, y)$ is $({n}, {m})$.", True
    yield f"x \\ge {n}", f"Therefore $x \\geq {n}$ is the solution.", True


def _altered(draw: random.Random) -> Drawn:
    """Yield numbers that words make others of, and the same number in sentences without marks."""
    n = draw.randrange(20, 900)
    k = draw.randrange(2, 9)
    for answer in (
        "half of {}",
        "twice {}",
        "the square root of {}",
        "the reciprocal of {}",
        "more than {}",
        "{} squared",
        "{} \\text{ cubed}",
        "{} dozen",
        "{} or more",
        f"{{}} plus {k}",
        f"{{}} divided by {k}",
        f"{{}} over {k}",
        f"{{}} to the power of {k}",
        "{} degrees below zero",
    ):
        altered = answer.replace("{}", str(n))
        yield str(n), f"\\boxed{{{altered}}}", False
        yield str(n), f"<answer>{altered}</answer>", False
        yield str(n), f"The answer is {altered}.", False
    for answer in ("La moitié de {}.", "Más de {}.", "Die Hälfte von {}.", "половина от {}"):
        yield str(n), answer.replace("{}", str(n)), False
    for answer in (
        "答案是{}的一半。",
        "{}個の半分です。",
        "答えは{}ではありません。",
        "Mehr als {}.",
    ):
        yield str(n), answer.replace("{}", str(n)), False
    for answer in (
        "La respuesta no es {}.",
        "I do not know, but {} was given.",
        "Is it perhaps {}?",
    ):
        yield str(n), answer.replace("{}", str(n)), False
    for answer in (
        "Elle a {} euros.",
        "Quedan {} manzanas.",
        "Es bleiben {} Äpfel.",
        "У неё {} яблок.",
        "太郎は{}個のりんごを持っています。",
        "小明有{}个苹果。",
        "Only {} apples.",
        "Total: {} apples",
        "✅ {}",
        "At last she has half of them, and that is {}.",
    ):
        yield str(n), answer.replace("{}", str(n)), True
        yield str(n + 1), answer.replace("{}", str(n)), False
    yield str(n * k), f"{n} x {k} = {n * k}.", True


def _questions(draw: random.Random) -> Iterator[tuple[str, str, str, bool]]:
    """Yield questions whose formulas are boxed again, and their answers."""
    a = draw.randrange(12, 60)
    b = draw.randrange(12, 60)
    c = draw.randrange(2, 9)
    times = f"{a}*{b}"
    yield from _boxed(f"What is {times}?", str(a * b), wrong=(times, f"{b}*{a}"), right=str(a * b))
    root = str(Fraction(b - a, c))
    line = f"{c}x + {a}"
    same = (f"{line} = {b}", f"{b} = {line}")
    yield from _boxed(f"Solve {line} = {b}.", f"x = {root}", wrong=same, right=root)
    product = f"x^2 + {a + b}x + {a * b}"
    factors = f"(x + {a})(x + {b})"
    same = (factors, f"(x + {b})({a} + x)")
    turned = f"{a * b} + {a + b}x + x^2"
    yield from _boxed(f"Expand {factors}.", product, wrong=same, right=turned)
    yield f"Factor {product}.", f"(x+{a})(x+{b})", product, False
    yield f"What is {10 * c}% of 100?", str(10 * c), f"{10 * c}%", False
    yield f"Write {a}/4 as a decimal.", str(a / 4), f"{a}/4", False
    yield f"Which is larger, {a}/7 or {a}/9?", f"{a}/7", f"{a}/7", True
    yield f"How many m is {c} km?", f"{c * 1000} m", f"{c} km", False


def _boxed(
    question: str, answer: str, *, wrong: Sequence[str], right: str
) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the question with boxed texts that only repeat it, and with one that answers it."""
    for text in wrong:
        yield question, answer, text, False
    yield question, answer, right, True


# Texts inside \boxed{…}, whole replies, and boxed texts with the question they answer.
BOXED: dict[str, Rule] = {
    "integers": _integers,
    "fractions": _fractions,
    "decimals": _decimals,
    "percents": _percents,
    "thousands": _thousands,
    "units": _units,
    "intervals": _intervals,
    "sets": _sets,
    "tuples": _tuples,
    "matrices": _matrices,
    "expressions": _expressions,
    "equations": _equations,
    "inequalities": _inequalities,
    "plus or minus": _plus_minus,
    "scientific": _scientific,
    "mixed numbers": _mixed,
    "words": _words,
    "choices": _choices,
    "signs and order": _signs,
    "bases": _bases,
    "repeating decimals": _repeating,
    "ratios": _ratios,
    "named values": _named,
    "sets of numbers": _real_sets,
    "printed decimals": _printed,
    "approximations": _approximations,
    "wrappers": _wrapped,
    "converted units": _converted,
    "unsolved": _unsolved,
    "several letters": _several_letters,
    "points and vectors": _vectors,
}
SAID: dict[str, Rule] = {
    "several boxes": _boxes,
    "sentences": _sentences,
    "altered numbers": _altered,
}
ASKED = {"the question again": _questions}
