"""Rules that draw numbers as answers, right or wrong by construction (see bench/math_pairs.py)."""

import random
from fractions import Fraction

from bench.math_tables import Drawn, filled


def integers(draw: random.Random) -> Drawn:
    n = draw.randrange(-900, 900)
    yield from filled(
        (
            ("<n>", "<n>.0", True),
            ("<n>", "x = <n>", True),
            ("<n>", str(n + 1), False),
            ("<n>", "<n>0", n == 0),
            ("<n>", str(-n), n == 0),
        ),
        n=n,
    )


def fractions(draw: random.Random) -> Drawn:
    half = Fraction(draw.randrange(1, 40), draw.choice((2, 4, 5, 8, 16, 20)))
    top = half.numerator
    bottom = half.denominator
    k = draw.randrange(2, 6)
    yield from filled(
        (
            ("<top>/<bottom>", f"\\frac{{{top * k}}}{{{bottom * k}}}", True),
            (r"\frac{<top>}{<bottom>}", str(float(half)), True),
            (r"-\frac{<top>}{<bottom>}", f"\\dfrac{{{-top}}}{{{bottom}}}", True),
            ("<top>/<bottom>", f"{top}/{bottom + 1}", False),
            ("<top>/<bottom>", "<bottom>/<top>", top == bottom),
        ),
        bottom=bottom,
        top=top,
    )


def decimals(draw: random.Random) -> Drawn:
    k = draw.choice((3, 6, 7, 9, 11, 13))
    value = Fraction(draw.randrange(1, k), k)
    digits = f"{float(value):.8f}"
    yield from filled(
        (
            ("<value>", digits, True),
            ("<value>", digits[:4], Fraction(digits[:4]) == value),
            ("<value>", f"{float(value) + 0.001:.8f}", False),
            (digits[:4], digits[:4] + "0", True),
        ),
        value=value,
    )


def percents(draw: random.Random) -> Drawn:
    n = draw.randrange(2, 99)
    yield from filled(
        (
            (str(n / 100), r"<n>\%", True),
            (r"<n>\%", "<n>", True),
            (r"<n>\%", "<n>/100", True),
            ("<n>", "<n> percent", False),
            ("<n>%", f"{n + 1}%", False),
            (str(n / 100), f"{n / 100}%", False),
            ("<n>%", str(n / 10), False),
        ),
        n=n,
    )


def thousands(draw: random.Random) -> Drawn:
    n = draw.randrange(1_000, 10**8)
    yield from filled(
        (
            ("<n>", f"{n:,}", True),
            (f"{n:,}", "<n>", True),
            ("<n>", f"{n:,}".replace(",", "{,}"), True),
            ("<n>", f"{n:,}".replace(",", "\\,"), True),
            ("<n>", f"{n + 1_000:,}", False),
            ("<n>", f"{n * 10:,}", False),
        ),
        n=n,
    )


def units(draw: random.Random) -> Drawn:
    n, unit, other_unit = (
        draw.randrange(2, 500),
        *draw.sample(("cm", "m", "km", "kg", "seconds", "hours"), 2),
    )
    yield from filled(
        (
            ("<n>", "<n> <unit>", True),
            (r"<n> \text{ <unit>}", "<n>", True),
            ("<n> <unit>", r"<n>\,\mathrm{<unit>}", True),
            ("<n> <unit>", "<n> <other>", False),
            ("<n>", f"{n + 1} {unit}", False),
            (r"<n>^\circ", "<n>", True),
            ("<n>", r"\$<n>", True),
            ("<n>", "<n> apples", True),
            ("<n>", f"{n + 2} apples", False),
        ),
        n=n,
        other=other_unit,
        unit=unit,
    )


def plus_minus(draw: random.Random) -> Drawn:
    a = draw.randrange(1, 20)
    b = draw.choice((2, 3, 5, 7))
    yield from filled(
        (
            (r"\pm <a>", "<a>, -<a>", True),
            (r"x = \pm <a>", r"\{-<a>, <a>\}", True),
            (r"<a> \pm \sqrt{<b>}", r"<a> - \sqrt<b>, <a> + \sqrt<b>", True),
            (r"\pm <a>", "<a>", False),
            ("<a>", r"\pm <a>", False),
        ),
        a=a,
        b=b,
    )


def scientific(draw: random.Random) -> Drawn:
    m = draw.randrange(11, 99)
    e = draw.randrange(3, 9)
    yield from filled(
        (
            (f"{m * 10 ** (e - 1)}", f"{m / 10} \\times 10^{{{e}}}", True),
            (f"{m / 10} \\times 10^{e}", f"{m / 10}e{e}", True),
            (r"<m> \times 10^{-<e>}", "<m>e-<e>", True),
            (f"{m / 10} \\times 10^{e}", f"{m / 10} \\times 10^{e + 1}", False),
            (f"{m / 10} \\times 10^{e}", f"{m / 10} \\times 10^{{-{e}}}", False),
        ),
        e=e,
        m=m,
    )


def mixed(draw: random.Random) -> Drawn:
    whole = draw.randrange(2, 12)
    bottom = draw.choice((3, 4, 7, 8))
    top = draw.randrange(1, bottom)
    value = whole + Fraction(top, bottom)
    yield from filled(
        (
            ("<value>", r"<whole>\frac{<top>}{<bottom>}", True),
            ("<whole> <top>/<bottom>", "<value>", True),
            (r"-<whole>\frac{<top>}{<bottom>}", str(-value), True),
            (r"<whole>\frac{<top>}{<bottom>}", str(whole * Fraction(top, bottom)), False),
            ("<value>", f"{whole + 1}\\frac{{{top}}}{{{bottom}}}", False),
        ),
        bottom=bottom,
        top=top,
        value=value,
        whole=whole,
    )


def bases(draw: random.Random) -> Drawn:
    base = draw.randrange(2, 8)
    value = draw.randrange(20, 900)
    digits = ""
    remaining = value
    while remaining:
        digits = str(remaining % base) + digits
        remaining = remaining // base
    yield from filled(
        (
            ("<digits>_<base>", "<digits>_{<base>}", True),
            ("<digits>_<base>", digits, True),
            ("<digits>_<base>", f"{digits}_{base + 1}", False),
            ("<digits>_<base>", f"{digits[0]}.{digits[1:]}_{base}", False),
            ("<digits>_<base>", "<value>", False),
        ),
        base=base,
        digits=digits,
        value=value,
    )


def repeating(draw: random.Random) -> Drawn:
    period = f"{draw.randrange(1, 99):02}"
    if period in ("11", "22", "33", "44", "55", "66", "77", "88"):
        period = "27"
    value = Fraction(int(period), 99)
    yield from filled(
        (
            ("<value>", r"0.\overline{<period>}", True),
            ("<value>", "0.(<period>)", True),
            ("<value>", f"0.{period * 3}\\ldots", True),
            ("<value>", "0.<period>", False),
            (r"0.\overline{<period>}", "<value>", True),
            ("0.<period>", r"0.\overline{<period>}", False),
        ),
        period=period,
        value=value,
    )


def ratios(draw: random.Random) -> Drawn:
    a = draw.randrange(2, 9)
    b = draw.randrange(10, 19)
    c = draw.randrange(21, 29)
    k = 3
    yield from filled(
        (
            ("<a>:<b>:<c>", f"{k * a}:{k * b}:{k * c}", True),
            ("<a>:<b>:<c>", "<a>:<c>:<b>", False),
            ("<a>:<b>", r"\frac{<a>}{<b>}", True),
            ("A:B=<a>:<b>", "<a>:<b>", True),
            ("<a>:<b>", "<b>:<a>", False),
            ("<a>:<b>:<c>", f"{a}:{b * c}", False),
        ),
        a=a,
        b=b,
        c=c,
    )


def printed(draw: random.Random) -> Drawn:
    k = draw.choice((3, 6, 7, 9, 11, 13))
    n = draw.randrange(2, 50)
    root = draw.choice((2, 3, 5, 7, 10))
    yield from filled(
        (
            (
                f"{n}/{k}" if n % k else f"{n}/{k + 100}",
                repr(n / k if n % k else n / (k + 100)),
                True,
            ),
            (r"\sqrt{<root>}", repr(root**0.5), True),
            (r"<n>\pi", repr(n * 3.141592653589793), True),
            (r"\sqrt{<root>}", f"{root**0.5:.7f}", True),
            (r"\sqrt{<root>}", f"{root**0.5:.2f}", False),
            (r"\sqrt{<root>}", repr(root**0.5 + 1e-7), False),
            ("<n>/10", repr(n / 10), True),
        ),
        n=n,
        root=root,
    )


def approximations(draw: random.Random) -> Drawn:
    k = draw.choice((3, 7, 9, 11))
    n = draw.randrange(1, k)
    yield from filled(
        (
            (r"\frac{<n>}{<k>}", f"\\frac{{{n}}}{{{k}}} \\approx {n / k:.3f}", True),
            (r"\frac{<n>}{<k>}", f"\\frac{{{n}}}{{{k}}} \\approx {n / k + 0.1:.3f}", False),
            (r"\frac{<n>}{<k>}", f"x = {n}/{k} \\approx {n / k:.2f}", True),
            (r"\frac{<n>}{<k>}", f"\\approx {n / k:.2f}", False),
        ),
        k=k,
        n=n,
    )


def converted(draw: random.Random) -> Drawn:
    n = draw.randrange(2, 90)
    for large, small, size in (
        ("m", "cm", 100),
        ("km", "m", 1000),
        ("kg", "g", 1000),
        ("hours", "minutes", 60),
        ("feet", "inches", 12),
    ):
        yield from filled(
            (
                ("<n> <large>", f"{n * size} {small}", True),
                ("<n> <large>", "<n> <small>", False),
            ),
            large=large,
            n=n,
            small=small,
        )
    yield from filled(
        (
            (r"\$<n>", f"{n * 100} cents", True),
            (r"\$<n>", "<n> cents", False),
            ("<n> hours", "<n> pesos", False),
            (r"<n> \text{ am}", r"<n> \text{ pm}", False),
            (r"<n> \text{ gain}", r"<n> \text{ loss}", False),
            ("<n> apples", r"<n> \text{ apples}", True),
        ),
        n=n,
    )
