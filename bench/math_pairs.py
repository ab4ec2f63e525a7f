"""Rules that draw answers to mathematics, right or wrong by construction, by class.

Each rule yields (wanted answer, text of the answer, whether it is right); those of `ASKED` yield
the question first. In the tables, `<name>` stands for the value of that name.
"""

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

from bench import math_numbers
from bench.math_tables import Drawn, Rule, filled


def _intervals(draw: random.Random) -> Drawn:
    a, b = sorted(draw.sample(range(-30, 30), 2))
    yield from filled(
        (
            ("[<a>, <b>)", r"\left[<a>,<b>\right)", True),
            ("(<a>, <b>]", r"<a> < x \le <b>", True),
            (r"(-\infty, <a>) \cup (<b>, \infty)", r"(<b>, \infty) \cup (-\infty, <a>)", True),
            (r"x \in [<a>, <b>]", "[<a>.0, <b>]", True),
            ("[<a>, <b>]", "(<a>, <b>)", False),
            ("[<a>, <b>)", "[<a>, <b>]", False),
            ("[<a>, <b>]", f"[{a}, {b + 1}]", False),
            (r"(<a>, \infty)", "x > <a>", True),
            (r"(<a>, \infty)", r"x \ge <a>", False),
        ),
        a=a,
        b=b,
    )


def _sets(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-40, 40), 3)
    yield from filled(
        (
            (r"\{<a>, <b>, <c>\}", r"\{<c>, <a>, <b>\}", True),
            ("<a>, <b>", r"x = <b> \text{ or } x = <a>", True),
            (r"\{<a>, <b>\}", "<a> and <b>", True),
            (r"\{<a>, <b>, <c>\}", r"\{<a>, <b>\}", False),
            (r"\{<a>, <b>\}", r"\{<a>, <b>, <c>\}", False),
            ("<a>", "<a>, <b>, <c>", False),
        ),
        a=a,
        b=b,
        c=c,
    )


def _tuples(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-40, 40), 3)
    yield from filled(
        (
            ("(<a>, <b>/2)", r"\left(<a>, \frac{<b>}{2}\right)", True),
            ("(<a>, <b>, <c>)", "(<a>,<b>,<c>)", True),
            ("(<a>, <b>)", "(<b>, <a>)", False),
            ("(<a>, <b>, <c>)", "(<a>, <b>)", False),
            ("(<a>, <b>)", r"\{<a>, <b>\}", False),
        ),
        a=a,
        b=b,
        c=c,
    )


def _matrices(draw: random.Random) -> Drawn:
    a, b, c, d = draw.sample(range(-20, 20), 4)
    matrix = f"\\begin{{pmatrix}} {a} & {b} \\\\ {c} & {d} \\end{{pmatrix}}"
    yield from filled(
        (
            (matrix, matrix.replace("pmatrix", "bmatrix"), True),
            (matrix, "[[<a>, <b>], [<c>, <d>]]", True),
            (matrix, f"\\begin{{pmatrix}} {2 * a}/2 & {b}.0 \\\\ {c} & {d} \\end{{pmatrix}}", True),
            (matrix, r"\begin{pmatrix} <a> & <c> \\ <b> & <d> \end{pmatrix}", False),
            (matrix, r"\begin{pmatrix} <a> & <b> \end{pmatrix}", False),
        ),
        a=a,
        b=b,
        c=c,
        d=d,
    )


def _expressions(draw: random.Random) -> Drawn:
    a = draw.randrange(2, 12)
    b = draw.randrange(2, 12)
    yield from filled(
        (
            ("(x+<a>)(x-<b>)", f"x^2 + {a - b}x - {a * b}".replace("+ -", "- "), True),
            ("<a>x + <b>y", r"<b>y + <a> \cdot x", True),
            (r"\frac{<a>}{x}", "<a>x^{-1}", True),
            (f"\\sqrt{{{a * a * b}}}", r"<a>\sqrt{<b>}", True),
            (r"\sin(2x) \cdot <a>", f"{2 * a} \\sin x \\cos x", True),
            (r"\ln(x^{<a>})", r"<a> \ln y", False),
            ("(x+<a>)^2", f"x^2 + {a * a}", False),
            (r"<a>\sqrt{x}", r"\sqrt{<a>x}", False),
            (r"\frac{<a>\pi}{<b>}", "<a>*pi/<b>", True),
            (r"\frac{1}{\sqrt{<b>}}", r"\frac{\sqrt{<b>}}{<b>}", True),
        ),
        a=a,
        b=b,
    )


def _equations(draw: random.Random) -> Drawn:
    a = draw.randrange(2, 12)
    b = draw.randrange(2, 12)
    k = draw.randrange(2, 5)
    yield from filled(
        (
            ("y = <a>x + <b>", "y - <a>x = <b>", True),
            ("<a>x + <b>y = 1", f"{k * a}x + {k * b}y = {k}", True),
            ("y = <a>x + <b>", "<a>x + <b>", True),
            ("x = <a>", "<a> = x", True),
            ("y = <a>x + <b>", "y = <a>x - <b>", False),
            ("x = <a>", "y = <a>", False),
            ("x^2 + y^2 = <a>", "x^2 - y^2 = <a>", False),
        ),
        a=a,
        b=b,
    )


def _inequalities(draw: random.Random) -> Drawn:
    a = draw.randrange(-20, 0)
    b = draw.randrange(1, 20)
    yield from filled(
        (
            ("x > <a>", "<a> < x", True),
            (r"x \ge <b>", f"2x \\geq {2 * b}", False),
            ("x < <b>", f"-x > {-b}", False),
            (r"<a> < x \le <b>", r"<b> \geq x > <a>", True),
            ("x > <a>", "x < <a>", False),
            ("x > <a>", r"x \ge <a>", False),
            ("<a> < x < <b>", r"<a> < x \le <b>", False),
        ),
        a=a,
        b=b,
    )


def _words(draw: random.Random) -> Drawn:
    right, wrong = draw.sample(
        ("Tuesday", "even", "parabola", "isosceles", "Alice", "decreasing", "none of them"), 2
    )
    yield from filled(
        (
            (right, r"\text{<right>}", True),
            (r"\text{<right>}", right.lower(), True),
            (right, r"\text{<wrong>}", False),
            (right, r"\text{<right> or <wrong>}", False),
        ),
        right=right,
        wrong=wrong,
    )


def _choices(draw: random.Random) -> Drawn:
    right, wrong = draw.sample("ABCDE", 2)
    yield from filled(
        (
            (right, r"\text{(<right>)}", True),
            ("(<right>)", right, True),
            (right, "<right>. 12", True),
            (right, wrong, False),
            (right, "<right>, <wrong>", False),
            (right, "A, B, C, D, E", False),
        ),
        right=right,
        wrong=wrong,
    )


def _signs(draw: random.Random) -> Drawn:
    a, b = draw.sample("abcmnpquvw", 2)
    n = draw.randrange(2, 9)
    yield from filled(
        (
            (r"-\vec{<a>}", r"\vec{<a>}", False),
            (r"\vec{<a>}-\vec{<b>}", r"-\vec{<b>}+\vec{<a>}", True),
            (r"\vec{<a>}-\vec{<b>}", r"\vec{<a>}\vec{<b>}", False),
            (r"-\sum_{j=1}^{n} <a>_j", r"\sum_{j=1}^{n} <a>_j", False),
            (r"\sum_{j=1}^{n} <a>_j", r"\sum_{k=1}^{n} <a>_k", True),
            (r"\sum_{j=<n>}^{m} <a>_j", f"\\sum_{{j={n + 1}}}^{{m}} {a}_j", False),
            (r"-\lim_{t\to <n>} <a>(t)", r"\lim_{t\to <n>} <a>(t)", False),
            (
                f"-\\overline{{{a.upper()}{b.upper()}}}",
                f"\\overline{{{a.upper()}{b.upper()}}}",
                False,
            ),
            ("10.<n>.0.2", "10<n>.0.2", False),
            (f"x\\equiv {n} \\pmod{{{n + 9}}}", f"x\\equiv {2 * n + 9} \\pmod{{{n + 9}}}", True),
            (f"x\\equiv {n} \\pmod{{{2 * n + 5}}}", f"x\\equiv -{n} \\pmod{{{2 * n + 5}}}", False),
        ),
        a=a,
        b=b,
        n=n,
    )


def _named_value(draw: random.Random) -> Drawn:
    n, m = draw.sample(range(2, 60), 2)
    for name in ("f(3)", "|CD|", "\\sin B", "\\frac{KL}{MN}", "a_{10}", "P(A)", "\\angle ABC"):
        yield from filled(
            (
                ("<name>=<n>", "<n>", True),
                ("<name>=<n>", "<m>", False),
                ("<n>", "<name>=<n>", True),
            ),
            m=m,
            n=n,
            name=name,
        )
    yield from filled(
        (
            ("AB=<n>,CD=<m>", "<n>, <m>", True),
            ("AB=<n>,CD=<m>", "<m>, <n>", False),
            ("(x,y)=(<n>,<m>)", "(<n>,<m>)", True),
            ("0<g(x)<<n>", "(0,<n>)", True),
        ),
        m=m,
        n=n,
    )


def _real_sets(draw: random.Random) -> Drawn:
    a, b, c = sorted(draw.sample(range(-30, 30), 3))
    yield from filled(
        (
            (r"[<a>,<b>]\cup[<b>,<c>]", "[<a>,<c>]", True),
            (r"[<a>,<b>)\cup(<b>,<c>]", "[<a>,<c>]", False),
            (r"x \neq <a>", r"(-\infty,<a>)\cup(<a>,\infty)", True),
            (r"\mathbb{R}\setminus\{<a>\}", r"x\ne <a>", True),
            (r"\{x : x><a>\}", r"(<a>,\infty)", True),
            (r"\{x : x><a>\}", r"[<a>,\infty)", False),
            (r"x<<a> \text{ or } x><b>", r"(<b>,\infty)\cup(-\infty,<a>)", True),
            ("(<a>,<c>)", r"x><a> \text{ and } x<<c>", True),
            ("x > <a>", "y > <a>", False),
            (r"\emptyset", r"\{\}", True),
            (r"\emptyset", r"\{<a>\}", False),
        ),
        a=a,
        b=b,
        c=c,
    )


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
        yield from filled(
            (
                ("<n>", answer, True),
                (str(n + 1), answer, False),
            ),
            n=n,
        )
    yield f"\\text{{{letter}}}", f"({letter})", True


def _unsolved(draw: random.Random) -> Drawn:
    a = draw.randrange(2, 9)
    x = draw.randrange(2, 30)
    b = draw.randrange(2, 30)
    name = draw.choice("xykt")
    yield from filled(
        (
            ("<x>", f"{a}{name}={a * x}", False),
            ("<name>=<x>", f"{a}{name}+{b}={a * x + b}", False),
            ("<name>><x>", f"{a}{name}+{b}>{a * x + b}", False),
            (str(x * x), f"{name}^2={x * x}", False),
            ("<x>", "0<name>=<x>", False),
            (str(a * b), "<a>*<b>", False),
            (str(x + b), "<x>+<b>", False),
            (str(2**a), "2^{<a>}", False),
            ("<x>", f"\\sqrt{{{x * x}}}", False),
            ("<name>=<x>", "<x>=<name>", True),
            (str(x * b), f"{x}\\cdot {b} = {x * b}", True),
            ("<x>", "<name>=<x>", True),
        ),
        a=a,
        b=b,
        name=name,
        x=x,
    )


def _several_letters(draw: random.Random) -> Drawn:
    right, second, third = draw.sample("ABCDE", 3)
    yield from filled(
        (
            (right, "(<right>), (<second>), (<third>)", False),
            (right, "<right>: 3, <second>: 4", False),
            (right, "<right> or <second>", False),
            (right, r"\textbf{(<right>)}", True),
            (right, "<right>: 12", True),
        ),
        right=right,
        second=second,
        third=third,
    )


def _vectors(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-9, 20), 3)
    column = f"\\begin{{pmatrix}}{a}\\\\{b}\\\\{c}\\end{{pmatrix}}"
    yield from filled(
        (
            (column, "(<a>, <b>, <c>)", True),
            ("(<a>,<b>,<c>)", column, True),
            (column, "(<a>, <c>, <b>)", False),
            ("(<a>,<b>)", "P(<a>,<b>)", True),
            ("(<a>,<b>)", r"\langle <a>, <b>\rangle", True),
            ("(<a>,<b>)", "x=<a>, y=<b>", True),
        ),
        a=a,
        b=b,
        c=c,
    )


def _boxes(draw: random.Random) -> Drawn:
    a, b, c = draw.sample(range(-40, 60), 3)
    yield from filled(
        (
            ("<a>, <b>", r"The roots are \boxed{<b>} and \boxed{<a>}.", True),
            ("k=<a>, n=<b>", r"$\boxed{k = <a>}$ and $\boxed{n = <b>}$", True),
            ("<a>, <b>", r"\boxed{<a>}, \boxed{<b>} and \boxed{<c>}", False),
            ("<a>", r"\boxed{<b>} or \boxed{<a>}", False),
            ("<a>", r"Put it into \boxed{}. \boxed{<a>}", True),
            ("<a>", r"first \boxed{<a>}, no: \boxed{", False),
            ("<a>", r"<answer>\boxed{<a>}</answer>", True),
            ("<a>", r"<think>\boxed{<a>}</think> I do not know.", False),
            ("<a>", r"<think>\boxed{<b>}</think> \boxed{<a>}", True),
            ("<a>", r"\boxed{<a>} … so \boxed{<a>}", True),
        ),
        a=a,
        b=b,
        c=c,
    )


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
        yield from filled(
            (
                ("<n>", answer.replace("{}", str(n)), True),
                ("<n>", answer.replace("{}", str(m)), False),
            ),
            n=n,
        )
    yield from filled(
        (
            ("<n>", "The answer is not <n>.", False),
            ("<n>", "The answer is <n> or <m>.", False),
            ("<n>", "We have that 3x = <n>.", False),
            ("(<n>,<m>)", "So the pair $(x, y)$ is $(<n>, <m>)$.", True),
            (r"x \ge <n>", r"Therefore $x \geq <n>$ is the solution.", True),
        ),
        m=m,
        n=n,
    )


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
        yield from filled(
            (
                ("<n>", r"\boxed{<altered>}", False),
                ("<n>", "<answer><altered></answer>", False),
                ("<n>", "The answer is <altered>.", False),
            ),
            altered=altered,
            n=n,
        )
    for answer in (
        "La moitié de {}.",
        "Más de {}.",
        "Die Hälfte von {}.",
        "половина от {}",
        "答案是{}的一半。",
        "{}個の半分です。",
        "答えは{}ではありません。",
        "Mehr als {}.",
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
        sentence = answer.replace("{}", str(n))
        yield str(n), sentence, True
        yield str(n + 1), sentence, False
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
    repetitions = (f"{line} = {b}", f"{b} = {line}")
    yield from _boxed(f"Solve {line} = {b}.", f"x = {root}", wrong=repetitions, right=root)
    product = f"x^2 + {a + b}x + {a * b}"
    factors = f"(x + {a})(x + {b})"
    repetitions = (factors, f"(x + {b})({a} + x)")
    turned = f"{a * b} + {a + b}x + x^2"
    yield from _boxed(f"Expand {factors}.", product, wrong=repetitions, right=turned)
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
    "integers": math_numbers.integers,
    "fractions": math_numbers.fractions,
    "decimals": math_numbers.decimals,
    "percents": math_numbers.percents,
    "thousands": math_numbers.thousands,
    "units": math_numbers.units,
    "intervals": _intervals,
    "sets": _sets,
    "tuples": _tuples,
    "matrices": _matrices,
    "expressions": _expressions,
    "equations": _equations,
    "inequalities": _inequalities,
    "plus or minus": math_numbers.plus_minus,
    "scientific": math_numbers.scientific,
    "mixed numbers": math_numbers.mixed,
    "words": _words,
    "choices": _choices,
    "signs and order": _signs,
    "bases": math_numbers.bases,
    "repeating decimals": math_numbers.repeating,
    "ratios": math_numbers.ratios,
    "named values": _named_value,
    "sets of numbers": _real_sets,
    "printed decimals": math_numbers.printed,
    "approximations": math_numbers.approximations,
    "wrappers": _wrapped,
    "converted units": math_numbers.converted,
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
