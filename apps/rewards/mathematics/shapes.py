"""What an answer is: a value, a word, several values (a list, a set, a pair, an interval), a matrix, a relation, a union."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from apps.rewards.mathematics import notation
from apps.rewards.mathematics.formulas import Node, NotAFormula, parse
from apps.rewards.mathematics.values import symbols

MOST_ITEMS = 60
RELATIONS = ("\\le", "\\ge", "\\ne", "\\approx", "=", "<", ">")
_OPEN, _CLOSE = ("(", "[", "\\{", "\\langle"), (")", "]", "\\}", "\\rangle")
_STEP = re.compile(r"\\begin\{[a-z]*matrix\}|\\end\{[a-z]*matrix\}|\\[a-zA-Z]+|\\.|.", re.DOTALL)
_MATRIX = re.compile(r"\\begin\{([pbBvV]?matrix|smallmatrix|array)\}(?:\{[clr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_LINKS = re.compile(
    r"\\text\{\s*,?\s*(?:and|or)\s*\}|(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])|\\(?:vee|lor|wedge|land)(?![a-zA-Z])", re.I
)
_UNIT = re.compile(
    r"^(?P<value>.*?[\d)}!%])\s*(?:(?P<mark>\\degree)|(?P<text>\\text\{[^{}]*\}(?:\s*\^\s*\{?[-\d]+\}?)?)"
    r"|(?<=[\d%])\s*(?P<plain>(?:[a-zA-Z]{2,}|(?<=\s)[a-zA-Z]|[a-zA-Z]/[a-zA-Z])[a-zA-Z\s/.^{}\d-]*))\.?$",
    re.DOTALL,
)
_SPELLINGS = """
mm millimeter millimeters millimetre millimetres; cm centimeter centimeters centimetre centimetres; m meter meters metre metres;
km kilometer kilometers kilometre kilometres; g gram grams; kg kilogram kilograms; mg milligram milligrams;
s sec secs second seconds;
min mins minute minutes; h hr hrs hour hours; day days; week weeks; month months; year years; l liter liters litre litres;
ml milliliter milliliters millilitre millilitres; inch inches in; ft foot feet; yd yard yards; mile miles mi; degree degrees deg;
radian radians rad; cent cents; dollar dollars usd; euro euros eur; mph; km/h kmh kph; m/s; n newton newtons; j joule joules;
w watt watts; v volt volts; a ampere amperes amp amps; hz hertz; mol mole moles; k kelvin;
lb lbs pound pounds; oz ounce ounces; cup cups; egg eggs; box boxes; pen pens; car cars;
bag bags; way ways; men; dog dogs; cat cats
"""
UNITS = {name: spellings.split()[0] for spellings in _SPELLINGS.split(";") for name in spellings.split()}


@dataclass(frozen=True)
class Value:
    """A formula, as it was written; `unit`: what stood behind it, as a known unit or a word."""

    node: Node
    text: str
    unit: str = ""

    @property
    def is_percent(self) -> bool:
        return self.node[0] == "%" or (self.node[0] == "-" and self.node[1][0] == "%")


@dataclass(frozen=True)
class Words:
    """What is no formula: words, letters, or something unknown, compared as written."""

    text: str


@dataclass(frozen=True)
class Items:
    """`left` and `right` are the brackets: "" for a bare list, "\\{" for a set; else a pair, an interval or a vector."""

    left: str
    items: tuple["Shape", ...]
    right: str


@dataclass(frozen=True)
class Matrix:
    rows: tuple[tuple["Shape", ...], ...]


@dataclass(frozen=True)
class Relation:
    """`sides` with the signs between them."""

    sides: tuple["Shape", ...]
    signs: tuple[str, ...]


@dataclass(frozen=True)
class Union:
    parts: tuple["Shape", ...]


Shape = Value | Words | Items | Matrix | Relation | Union


def readings(text: str) -> list[Shape]:
    """What this may mean, the likeliest first: 100,200 is a number, or else two."""
    cleaned = notation.clean(text).strip().rstrip(".,;").strip()
    joined = notation.without_thousands(cleaned)
    forms = [joined] if joined == cleaned or re.search(r",0\d\d", cleaned) else [joined, cleaned]
    return [read(notation.with_mixed_numbers(form)) for form in forms]


def read(text: str) -> Shape:
    """Of cleaned text. Never raises: what is nothing else is words."""
    text = _unwrapped(text.strip())
    linked = _LINKS.sub(",", text) if re.search(r"\d|[=<>]", text) else text
    parts = split(linked, (",", ";"))
    if len(parts) > 1 and len(parts) <= MOST_ITEMS:
        return Items("", tuple(_flattened(read(part) for part in parts if part.strip())), "")
    member = split(text, ("\\in",))
    if len(member) == 2:
        return read(member[1])
    union = split(text, ("\\cup",))
    union = union if len(union) > 1 else re.split(r"(?<=[)\]])\s*[U]\s*(?=[(\[])", text)
    if 1 < len(union) <= MOST_ITEMS:
        return Union(tuple(read(part) for part in union))
    return _relation(text) or _matrix(text) or _bracketed(text) or _signs(text) or _value(text)


def _flattened(items: Iterator[Shape]) -> Iterator[Shape]:
    """±2, 5 is three values."""
    for item in items:
        yield from item.items if isinstance(item, Items) and not item.left else (item,)


def _unwrapped(text: str) -> str:
    """Without the brackets of LaTeX alone around all of it."""
    while text.startswith("{") and text.endswith("}") and next(_ends(text), None) == len(text):
        text = text[1:-1].strip()
    return text


def _ends(text: str) -> Iterator[int]:
    """Where the bracket that the text begins with is closed."""
    depth = 0
    for step in _STEP.finditer(text):
        depth += _change(step.group())
        if not depth:
            yield step.end()
            return


def _change(token: str) -> int:
    if token in ("(", "[", "{", "\\{", "\\langle") or token.startswith("\\begin"):
        return 1
    return -1 if token in (")", "]", "}", "\\}", "\\rangle") or token.startswith("\\end") else 0


def split(text: str, at: tuple[str, ...]) -> list[str]:
    """At these signs outside of brackets."""
    return pieces(text, at)[0]


def pieces(text: str, at: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Split at these signs outside of brackets, and the signs."""
    found, signs, begin, depth = [], [], 0, 0
    for step in _STEP.finditer(text):
        token = step.group()
        depth += _change(token)
        if depth == 0 and token in at:
            found.append(text[begin : step.start()])
            signs.append(token)
            begin = step.end()
    return [*found, text[begin:]], signs


def _relation(text: str) -> Shape | None:
    sides, signs = pieces(text, RELATIONS)
    if not signs or len(signs) > 10 or not all(side.strip() for side in sides):
        return None
    read_sides = tuple(read(side) for side in sides)
    signs = ["=" if sign == "\\approx" else sign for sign in signs]
    last = read_sides[-1]
    if isinstance(last, Items) and not last.left and signs == ["="]:  # x = ±2
        return Items("", tuple(Relation((read_sides[0], item), ("=",)) for item in last.items), "")
    return Relation(read_sides, tuple(signs))


def _matrix(text: str) -> Shape | None:
    found = _MATRIX.fullmatch(text)
    if not found or len(found[2]) > 1_000:
        return None
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]{0,40}\])?", found[2]) if row.strip()]
    return Matrix(tuple(tuple(read(cell) for cell in split(row, ("&",))) for row in rows))


def _bracketed(text: str) -> Shape | None:
    left = next((sign for sign in ("]", *_OPEN) if text.startswith(sign)), None)
    right = next((sign for sign in ("[", *_CLOSE) if text.endswith(sign)), None)
    if left is None or right is None:
        return None
    inside = text[len(left) : -len(right)].strip()
    reversed_brackets = left == "]" or right == "["
    if not reversed_brackets and next(_ends(text), None) != len(text) and (left, right) not in (("(", "]"), ("[", ")")):
        return None
    parts = split(inside, (",", ";")) if inside else []
    if reversed_brackets and len(parts) != 2:
        return None
    if len(parts) > MOST_ITEMS or (len(parts) == 1 and left == "("):
        return None
    items = tuple(_flattened(read(part) for part in parts))
    if left == right == "[" or (left == "[" and right == "]" and items and all(_is_row(item) for item in items)):
        return Matrix(tuple(item.items for item in items))
    swap = {"]": "(", "\\langle": "("}, {"[": ")", "\\rangle": ")"}
    return Items(swap[0].get(left, left), items, swap[1].get(right, right))


def _is_row(item: Shape) -> bool:
    return isinstance(item, Items) and item.left == "["


def _signs(text: str) -> Shape | None:
    """a ± b, as the two values that it says."""
    if "\\pm" not in text and "\\mp" not in text:
        return None
    upper = text.replace("\\pm", "+").replace("\\mp", "-")
    lower = text.replace("\\pm", "-").replace("\\mp", "+")
    return Items("", (read(upper), read(lower)), "")


def _value(text: str) -> Shape:
    measured = list(_without_unit(text))
    known = [each for each in measured if each[1].partition("^")[0] in UNITS and _is_number(each[0])]
    for value, unit in (*known, (text, ""), *measured):
        try:
            return Value(parse(value), value, unit)
        except NotAFormula:
            continue
    return Words(text)


def _is_number(text: str) -> bool:
    """Whether a letter behind it is a unit rather than one more symbol."""
    try:
        return not symbols(parse(text))
    except NotAFormula:
        return False


def _without_unit(text: str) -> Iterator[tuple[str, str]]:
    """The value and what stands behind it; the unit of a value that has symbols of its own is never a letter of them."""
    found = _UNIT.match(text) if len(text) < 300 else None
    if found:
        yield found["value"].strip(), unit(found["mark"] or found["text"] or found["plain"])


def unit(text: str) -> str:
    """A known unit by its first name; else the word."""
    word = re.sub(r"\\text\{([^{}]*)\}", r"\1", text).lower().strip(" .\\").replace("{", "").replace("}", "").replace(" ", "")
    word = re.sub(r"^(?:square|sq\.?)(?=\w)(.*)$", r"\1^2", word)
    word = re.sub(r"^cubic(?=\w)(.*)$", r"\1^3", word)
    base, _, power = word.partition("^")
    return UNITS.get(base, base) + ("^" + power if power else "")


def number_written(value: Value) -> tuple[Fraction, int] | None:
    """A decimal number as written, with the power of ten of its last digit; None for what is no plain decimal."""
    found = re.fullmatch(r"\(?([-+]?)\s*+(\d*+)\.(\d++)(?:[eE]([-+]?\d{1,3}+))?\)?%?", value.text.strip())
    if not found:
        return None
    power = int(found[4] or 0) - len(found[3])
    return Fraction(int((found[2] or "0") + found[3]) * (-1 if found[1] == "-" else 1)) * Fraction(10) ** power, power
