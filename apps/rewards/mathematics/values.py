"""Compute what formulas are worth: exactly where it is a fraction, else to 60 digits.

Two formulas with symbols are taken for the same when their values agree at many random points
(Schwartz 1980, Zippel 1979): for polynomials and the elementary functions a chance agreement has
no practical probability. A function that is known by its name alone, a sum, a limit or an integral
is worth a number drawn from its name and the values of its parts: equal where these are, and
different for all practical purposes where they are not. What would be large is not computed.
"""

import hashlib
import math
import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from apps.rewards.mathematics.formulas import Node

BITS = 4_096  # of the largest exact number
MAX_FACTORIAL = 300
DIGITS = 60
DRAWN_DIGITS = 30  # of the values that decide which number is drawn
POINTS = 12  # drawn for each comparison
AGREEING = 4  # points at which both formulas must have a value
CLOSE = 1e-40  # of the larger value
NOISE = 1e-50  # what is left of a zero that was rounded
_FAILURES = (
    ZeroDivisionError,
    OverflowError,
    ValueError,
    TypeError,
    KeyError,
    RecursionError,
)


class NoValue(ValueError):
    """Raised for a formula without a value, or with one too large to be computed."""


class NotExact(ValueError):
    """Raised for a value that is no fraction."""


def exact(node: Node, at: Mapping[str, Fraction] | None = None) -> Fraction:
    """Return the value as a fraction. Raises NotExact if it is none, and NoValue."""
    kind = node[0]
    if kind == "number":
        return node[1]
    if kind == "symbol" and at is not None:
        return at[node[1]]
    if kind == "based" and node[1] is not None:
        return node[1]
    if kind in ("symbol", "constant", "based", "call", "big", "degree"):
        raise NotExact
    parts = [exact(part, at) for part in node[1:]]
    return _bounded(_exact_of(kind, parts))


def _exact_of(kind: str, parts: list[Fraction]) -> Fraction:
    match kind, parts:
        case "+", [a, b]:
            return a + b
        case "*", [a, b]:
            return a * b
        case "/", [a, b]:
            return _quotient(a, b)
        case "-", [a]:
            return -a
        case "%", [a]:
            return a / 100
        case "^", [a, b]:
            return _power(a, b)
        case "abs", [a]:
            return abs(a)
        case "floor" | "ceil", [a]:
            return Fraction(math.floor(a) if kind == "floor" else math.ceil(a))
        case "factorial", [a]:
            return Fraction(math.factorial(_as_small_integer(a)))
        case "binomial", [n, k]:
            return Fraction(math.comb(_as_small_integer(n), _as_small_integer(k)))
        case "min" | "max", _:
            return min(parts) if kind == "min" else max(parts)
        case "gcd" | "lcm", _ if all(part.denominator == 1 for part in parts):
            return Fraction((math.gcd if kind == "gcd" else math.lcm)(*map(int, parts)))
        case "sqrt", [a]:
            return _root(a)
    raise NotExact


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > BITS or value.denominator.bit_length() > BITS:
        raise NoValue("too large")
    return value


def _quotient(a: Fraction, b: Fraction) -> Fraction:
    if not b:
        raise NoValue("divided by zero")
    return a / b


def _as_small_integer(value: Fraction) -> int:
    if value.denominator != 1 or value < 0:
        raise NotExact
    if value > MAX_FACTORIAL:
        raise NoValue("too large")
    return int(value)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise NotExact
    if not base and exponent < 0:
        raise NoValue("divided by zero")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) in (0, 1):
        return base ** int(exponent % 2 + 2 if exponent else 0)
    if size * abs(exponent) > BITS:
        raise NoValue("too large")
    return base ** int(exponent)


def _root(value: Fraction) -> Fraction:
    if value < 0:
        raise NotExact
    top = math.isqrt(value.numerator)
    bottom = math.isqrt(value.denominator)
    if top * top != value.numerator or bottom * bottom != value.denominator:
        raise NotExact
    return Fraction(top, bottom)


def numeric(node: Node, at: Mapping[str, Any] | None = None) -> Any:
    """Compute the value to `DIGITS` digits, complex if it must be (mpmath); raises NoValue."""
    import mpmath

    with mpmath.workdps(DIGITS):
        try:
            value = _numeric(node, at or {}, mpmath)
        except (*_FAILURES, mpmath.libmp.NoConvergence) as error:
            raise NoValue(str(error)) from None
        return value


def _numeric(node: Node, at: Mapping[str, Any], mp: Any) -> Any:
    kind = node[0]
    if kind == "number":
        return mp.mpf(node[1].numerator) / node[1].denominator
    if kind == "symbol":
        return at[node[1]]
    if kind == "constant":
        return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1), "infinity": mp.inf}[node[1]]
    if kind == "based":
        return mp.mpf(int(node[1])) if node[1] is not None else _draw_number(node[2:], [], mp)
    if kind == "degree":
        return _numeric(node[1], at, mp) * mp.pi / 180
    if kind == "call":
        return _draw_number(("call", node[1]), [_numeric(node[2], at, mp)], mp)
    if kind == "big":
        return _big(node, at, mp)
    value = _numeric_of(kind, [_numeric(part, at, mp) for part in node[1:]], mp)
    if mp.isfinite(value) and abs(value) > mp.mpf(10) ** 2_000:
        raise NoValue("too large")
    return value


def _big(node: Node, at: Mapping[str, Any], mp: Any) -> Any:
    """Draw a number for a sum, a limit or an integral; the name of its variable is nothing."""
    _, name, bound, lower, upper, body = node
    inside = {**at, bound: _draw_number(("bound", len(at)), [], mp)} if bound else at
    limits = [
        mp.mpf(0) if part == ("symbol", "") else _numeric(part, at, mp) for part in (lower, upper)
    ]
    return _draw_number((name, bool(bound)), [*limits, _numeric(body, inside, mp)], mp)


def _draw_number(name: tuple, parts: list, mp: Any) -> Any:
    """Draw a number from 1 to 2 that is the same for the same name and values."""
    seed = repr((name, [mp.nstr(part, DRAWN_DIGITS) for part in parts]))
    digest = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:24])
    return 1 + mp.mpf(digest) / 2**192


def _numeric_of(kind: str, parts: list, mp: Any) -> Any:
    match kind, parts:
        case "+", [a, b]:
            return a + b
        case "*", [a, b]:
            return a * b
        case "/", [a, b]:
            return a / b
        case "-", [a]:
            return -a
        case "%", [a]:
            return a / 100
        case "^", [a, b]:
            return _numeric_power(a, b, mp)
        case "root", [a, n]:
            is_real = mp.im(a) == 0 and mp.im(n) == 0
            if is_real and mp.re(a) < 0 and n == int(n) and int(n) % 2:
                return -_numeric_power(-a, 1 / n, mp)
            return _numeric_power(a, 1 / n, mp)
        case "exp", [a]:
            return _numeric_power(+mp.e, a, mp)
        case "log", [a, base]:
            return mp.log(a) / mp.log(base)
        case "log" | "ln", [a]:  # without a base, as in analysis; `of_ten` has the other reading
            return mp.log(a)
        case "log10", [a]:
            return mp.log(a) / mp.log(10)
        case "factorial", [a]:
            return mp.factorial(_bounded_number(a))
        case "binomial", [n, k]:
            return mp.binomial(_bounded_number(n), _bounded_number(k))
        case "abs", [a]:
            return abs(a)
        case (("sinh" | "cosh" | "tanh"), [a]) if abs(a) < 2_000:
            return getattr(mp, kind)(a)
        case (("sin" | "cos" | "tan" | "cot" | "sec" | "csc"), [a]) if _is_moderate(a, mp):
            return getattr(mp, kind)(a)
        case (("asin" | "acos" | "atan" | "sqrt"), [a]):
            return getattr(mp, kind)(a)
        case "arccot", [a]:
            return mp.acot(a)
        case "floor" | "ceil", [a]:
            return getattr(mp, kind)(a)
        case "min" | "max", _:
            return min(parts) if kind == "min" else max(parts)
    raise NoValue(f"{kind} has no value here")


def _is_moderate(value: Any, mp: Any) -> bool:
    return abs(value) < 1e30 and abs(mp.im(value)) < 2_000


def _bounded_number(value: Any) -> Any:
    if abs(value) > MAX_FACTORIAL:
        raise NoValue("too large")
    return value


def _numeric_power(base: Any, exponent: Any, mp: Any) -> Any:
    """Compute a power after a check of its size: 9^9^9^9 raises NoValue at once."""
    if not (mp.isfinite(base) and mp.isfinite(exponent)) or abs(exponent) > 100_000:
        raise NoValue("too large")
    if base == 0:
        return mp.mpf(0) if mp.re(exponent) > 0 else mp.mpf(0) ** exponent
    if abs(exponent) * abs(mp.log(abs(base))) > 5_000:
        raise NoValue("too large")
    return mp.power(base, exponent)


def symbols(node: Node) -> frozenset[str]:
    if node[0] in ("number", "constant", "based"):
        return frozenset()
    if node[0] == "symbol":
        return frozenset((node[1],)) if node[1] else frozenset()
    if node[0] == "call":
        return symbols(node[2])
    if node[0] == "big":
        limits = symbols(node[3]) | symbols(node[4])
        return limits | (symbols(node[5]) - {node[2]})
    return frozenset().union(*(symbols(part) for part in node[1:]))


def of_ten(node: Node) -> Node:
    """Return the formula with each logarithm without a base taken to base ten, as in schools."""
    if node[0] in ("number", "constant", "symbol", "based"):
        return node
    parts = [of_ten(part) if isinstance(part, tuple) else part for part in node[1:]]
    return ("log10", *parts) if node[0] == "log" and len(parts) == 1 else (node[0], *parts)


def has_same_value(left: Node, right: Node) -> bool:
    """Tell whether the formulas are worth the same, whatever their symbols are."""
    if left == right:
        return True
    names = symbols(left) | symbols(right)
    if names:
        return _agree(left, right, sorted(names))
    try:
        return exact(left) == exact(right)
    except NotExact:
        return _same_number(left, right)
    except NoValue:
        return False


def _same_number(left: Node, right: Node) -> bool:
    try:
        return is_close(numeric(left), numeric(right))
    except NoValue:
        return False


def is_close(a: Any, b: Any) -> bool:
    """Tell whether two numbers agree to nearly `DIGITS` digits; infinities must be equal."""
    import mpmath

    if not (mpmath.isfinite(a) and mpmath.isfinite(b)):
        return bool(a == b)
    return bool(abs(a - b) <= max(CLOSE * max(abs(a), abs(b)), NOISE))


def choose_test_points(names: list[str]) -> list[dict[str, Fraction]]:
    """Return places to look at: of both signs and several sizes, the same for the same names."""
    draw = random.Random(7)

    def coordinate() -> Fraction:
        size = Fraction(draw.randrange(1, 10**6), 10**5)
        return size * draw.choice((1, 1, -1)) * draw.choice((1, Fraction(1, 8)))

    return [{name: coordinate() for name in names} for _ in range(POINTS)]


def _agree(left: Node, right: Node, names: list[str]) -> bool:
    agreed = 0
    for at in choose_test_points(names):
        try:
            if not _agree_at(left, right, at):
                return False
            agreed += 1
        except NoValue:
            continue  # neither is looked at where one of them has no value
    return agreed >= AGREEING


def _agree_at(left: Node, right: Node, at: dict[str, Fraction]) -> bool:
    """Tell whether both have the same value at a point, exactly if both are fractions there.

    Raises NoValue.
    """
    try:
        return exact(left, at) == exact(right, at)
    except NotExact:
        pass
    import mpmath

    with mpmath.workdps(DIGITS):
        real = {name: mpmath.mpf(value.numerator) / value.denominator for name, value in at.items()}
    return is_close(numeric(left, real), numeric(right, real))
