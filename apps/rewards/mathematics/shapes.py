"""Read what an answer is: a value, words, several values, a matrix, a relation, a set, a ratio."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from apps.rewards import spelled_values
from apps.rewards.altered_numbers import is_altered
from apps.rewards.mathematics import clock, notation, units
from apps.rewards.mathematics.brackets import (
    find_end,
    split_outside_brackets,
    split_with_signs,
    strip_braces,
)
from apps.rewards.mathematics.formulas import Node, NotAFormula, parse_exact_number, parse_formula
from apps.rewards.mathematics.values import exact, symbols

MAX_ITEMS = 60
MAX_MEASURED_LENGTH = 300  # characters of a value with its unit
DEEPEST = 24  # shapes in shapes
RELATIONS = (
    "\\le",
    "\\ge",
    "\\ne",
    "\\approx",
    "\\equiv",
    "=",
    "<",
    ">",
    "\\subset",
    "\\subseteq",
    "\\supset",
    "\\supseteq",
    "\\perp",
    "\\parallel",
    "\\sim",
)
SET_SIGNS = ("\\cup", "\\cap", "\\setminus")
EMPTY = "the empty set"
REALS = "all real numbers"
INTEGERS = "all integers"
_OPEN = ("(", "[", "\\{", "\\langle")
_CLOSE = (")", "]", "\\}", "\\rangle")
_MATRIX = re.compile(
    r"\\begin\{([pbBvV]?matrix|smallmatrix|array)\}(?:\{[clr|]*\})?(.*)\\end\{\1\}", re.DOTALL
)
_ANDS = r"and|und|et|y|и"
_ORS = r"or|oder|ou|или"
_LINKS = re.compile(
    rf"\\text\{{\s*,?\s*(?:({_ORS})|(?:{_ANDS}))\s*\}}"
    rf"|(?<![a-zA-Z\\])(?:({_ORS})|(?:and|und|et|и))(?![a-zA-Zа-я])"
    r"|(\\(?:vee|lor)(?![a-zA-Z])|或者?|または|或)|\\(?:wedge|land)(?![a-zA-Z])|和|与|及|と"
    r"|(?<=\d)\s(?:y|e|&)\s(?=[-\d])",
    re.I,
)
_EMPTY_SAID = re.compile(
    r"(?:\\emptyset|\\\{\s*\\\}|(?:there\s(?:is|are)\s)?no\s(?:real\s|integer\s)?solutions?"
    r"(?:\sexists?)?"
    r"|(?:the\s)?empty\sset|无解|无实数解|keine\slösung|解なし)",
    re.I,
)
_REALS_SAID = re.compile(
    r"(?:\\mathbb\{R\}|(?:the\sset\sof\s)?all\sreal(?:s|\snumbers)|all\sreal\svalues(?:\sof\s\w)?"
    r"|(?:the\s)?real\snumbers|全体实数)",
    re.I,
)
_INTEGERS_SAID = re.compile(
    r"(?:\\mathbb\{Z\}|(?:the\sset\sof\s)?(?:all\s|the\s)?integers|全体整数|所有整数)", re.I
)
_POSITIVE_SAID = re.compile(
    r"(?:\\mathbb\{R\}(?:\^\{?\+\}?|_\{?\+\}?|_\{\s?>\s?0\s?\})"
    r"|(?:all\s)?positive\sreals?(?:\snumbers)?)",
    re.I,
)
# Words before a value that is rounded, and before one that is the answer.
_ABOUT = re.compile(
    r"^(?:=|\\approx|\\sim(?![a-z])|(?:\\text\s?\{\s?)?"
    r"(?:about|approximately|approx\.?|roughly|exactly)\s?\}?(?=[\s\d.\\-]))\s?",
    re.I,
)
_SAYS_ANSWER = re.compile(
    r"^(?:\\text\s?\{\s?)?(?:the )?(?:final |correct )?answer(?: is)?\s?:?\s?\}?\s?(?=[-\d\\(])",
    re.I,
)
# A box that begins with words: "The probability is 3/8".
_SENTENCE = re.compile(
    r"^\\text\s?\{\s?(?![^{}]{0,80}\b(?:not|never|no|if|than)\b)"
    r"[^{}\d]{1,80}\s(?:is|are|equals)\s?:?\s?\}\s?"
    r"(?=[-\d\\(a-zA-Z])"
)
# A number with what is counted in brackets: 9 (apples).
_KNOWN_COMMANDS = re.compile(r"\\(?:cdot|times|frac|degree|circ|Omega|mu|usd|quad)(?![a-zA-Z])|\\%")
_COUNTED = re.compile(
    r"^(-?\d[\d,.]{0,30})\s?\((?!(?:not|no|false|wrong|incorrect|or|and|mod|approx)\b)"
    r"([a-z]{3,20}(?:\s[a-z]{1,20}){0,2})\)$"
)
_BOUND_ALONE = re.compile(r"(?:\\[lg]e(?![a-z])|[<>])\s?-?\s?(?:\d|\\(?:frac|sqrt|pi))")
_ALL_BUT = re.compile(
    r"(?:all\sreals?(?:\snumbers)?|\\mathbb\{R\}),?\s"
    r"(?:except|but|other\sthan|excluding)(?:\sfor)?\s"
    r"(?:[a-z]\s?=\s?)?(.{1,60})",
    re.I,
)
# A number with its unit, of several that are added up: 3 ft 6 in, 2 hours and 15 minutes.
_PART = re.compile(
    r"(\d{1,9}(?:\.\d{1,9})?)\s?(?:\\text\s?\{\s?([a-zA-Z]{1,12})\.?(?:\s?,?\sand)?\s?\}"
    r"|([a-zA-Z]{1,12}))\s?"
    r"(?:\\text\s?\{\s?,?\s?and\s?\}|and(?=\s))?\s?"
)
# Binomials: C(10, 3), which may be a point as well, 10C3 and _{10}C_{3}.
_CHOSEN = re.compile(
    r"C\s?\((\d{1,4}),\s?(\d{1,4})\)|(\d{1,4})C(\d{1,4})"
    r"|(?:\{\})?[_^]\s?\{?(\d{1,4})\}?\s?C_\s?\{?(\d{1,4})\}?"
)
_LABEL = re.compile(r"(?:\(([A-J])\)|([A-J])[).:])\s*(?=\S)")
_POINT_NAME = re.compile(r"[A-Z](?:'|_\{?\w\}?)?\s?(?=\()")
_EITHER_SIGN = re.compile(r"\\(?:pm|mp)(?![a-z])")  # not \pmod
_MODULUS = re.compile(r"[,(]?\s?\(?\\?(?:pmod|mod|bmod)\s?\{?\s?([^{}()]{1,40})\}?\)?$")
_CURRENCY = re.compile(
    r"(?P<minus>-?)\s?(?P<sign>\\(?:usd|dollar|euro|pounds)|[€£¥₹₽₩])\s?(?=[-\d.\\(])"
)
_CURRENCY_BEHIND = re.compile(r"(?<=[\d})])\s?(\\(?:usd|dollar|euro|pounds)|[€£¥₹₽₩])$")
_UNIT_SIGNS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ /.^{}()*-0123456789\\µμ$"
)
_NAMED_UNITS = ("\\degree", "\\Omega", "\\mu ")
_WORDS = re.compile(r"[\w\s.,;:!?'\"“”()&%#@/-]*")
_RATIO = re.compile(r"\\?[^:]{1,60}(?::[^:]{1,60}){1,5}")


@dataclass(frozen=True)
class Value:
    """Formula as it was written; `unit`: the text after it."""

    node: Node
    text: str
    unit: str = ""

    @property
    def is_percent(self) -> bool:
        return self.node[0] == "%" or (self.node[0] == "-" and self.node[1][0] == "%")


@dataclass(frozen=True)
class Words:
    """Words, letters or codes, compared as text."""

    text: str


@dataclass(frozen=True)
class Unread:
    """Formula that is not understood here: it only equals the same text."""

    text: str


@dataclass(frozen=True)
class Items:
    """Several shapes in brackets.

    `left` and `right`: "" for a bare list, "\\{" for a set; else a pair, an interval or a vector.
    `link`: "and" or "or", where a bare list has these words.
    """

    left: str
    items: tuple["Shape", ...]
    right: str
    link: str = ""


@dataclass(frozen=True)
class Matrix:
    rows: tuple[tuple["Shape", ...], ...]
    is_determinant: bool = False


@dataclass(frozen=True)
class Relation:
    """Relation: `sides` with the signs between them; `modulus`: of a congruence."""

    sides: tuple["Shape", ...]
    signs: tuple[str, ...]
    modulus: Node | None = None


@dataclass(frozen=True)
class SetOperation:
    """Sets with \\cup, \\cap or \\setminus between them, from left to right."""

    parts: tuple["Shape", ...]
    signs: tuple[str, ...]


@dataclass(frozen=True)
class Builder:
    """Set of all `name` that satisfy the condition."""

    name: str
    condition: "Shape"


@dataclass(frozen=True)
class Ratio:
    parts: tuple[Value, ...]


@dataclass(frozen=True)
class NamedSet:
    """Set with a name, EMPTY or REALS."""

    name: str


Shape = (
    Value | Words | Unread | Items | Matrix | Relation | SetOperation | Builder | Ratio | NamedSet
)


def list_meanings(text: str) -> list[Shape]:
    """List what this may mean, the likeliest first: 100,200 is a number, or else two."""
    cleaned = notation.clean(text).strip().rstrip(".,;").strip().removesuffix("\\").strip()
    cleaned = _ABOUT.sub("", _SENTENCE.sub("", _SAYS_ANSWER.sub("", cleaned)))
    cleaned = _COUNTED.sub(r"\1 \\text{\2}", cleaned)
    cleaned = re.sub(r"\(\s?(\\approx[^()]{1,60})\)$", r"\1", cleaned)
    if _BOUND_ALONE.match(cleaned):
        return [Builder("x", parse_shape("x" + cleaned))]
    joined = notation.without_thousands(cleaned)
    forms = [joined]
    if joined != cleaned and not re.search(r",0\d\d", cleaned):
        forms.append(cleaned)
    if re.fullmatch(r"-?(?:\d{1,20},\d{1,2}|\d{1,20},\d{4,20}|0,\d{1,20})(?:\D{0,20})", cleaned):
        forms.append(cleaned.replace(",", ".", 1))  # a decimal comma
    meanings = [parse_shape(notation.with_mixed_numbers(form)) for form in forms]
    meanings += _product_readings(notation.with_mixed_numbers(joined))
    if chosen := _CHOSEN.fullmatch(joined):
        top, bottom = (number for number in chosen.groups() if number)
        meanings += [parse_shape(rf"\binom{{{top}}}{{{bottom}}}")]
    if label := _LABEL.match(joined):
        meanings += [parse_shape(notation.with_mixed_numbers(joined[label.end() :]))]
    if name := _POINT_NAME.match(joined):
        inside = parse_shape(joined[name.end() :])
        meanings += [inside] if isinstance(inside, Items) and len(inside.items) > 1 else []
    return meanings


def _product_readings(text: str) -> list[Shape]:
    """Read letters behind a number as factors, which may have been taken for a unit."""
    node = _node(text)
    return [] if node is None or node[0] == "degree" else [Value(node, text)]


def parse_shape(text: str, depth: int = 0) -> Shape:
    """Read cleaned text. Never raises: what is nothing else is words."""
    text = strip_braces(text.strip())
    if depth > DEEPEST:
        return Unread(text)
    if named_set := _named_set(text):
        return named_set
    if time := clock.time_of_day(text):
        return Words(time)
    if measured := _compound(text):
        return measured
    return _list(text, depth) or _single(text, depth)


def _named_set(text: str) -> Shape | None:
    plain = re.sub(r"\\text\s?\{([^{}]*)\}", r"\1", text).strip(" .")
    if len(plain) > 60:
        return None
    if _EMPTY_SAID.fullmatch(plain):
        return NamedSet(EMPTY)
    if _POSITIVE_SAID.fullmatch(plain):
        return Items(
            "(",
            (Value(parse_exact_number("0"), "0"), Value(("constant", "infinity"), "\\infty")),
            ")",
        )
    if excepted := _ALL_BUT.fullmatch(plain):
        points = plain_items(parse_shape(excepted[1], DEEPEST - 2))
        return SetOperation((NamedSet(REALS), Items("\\{", tuple(points), "\\}")), ("\\setminus",))
    if _INTEGERS_SAID.fullmatch(plain):
        return NamedSet(INTEGERS)
    return NamedSet(REALS) if _REALS_SAID.fullmatch(plain) else None


def _compound(text: str) -> Value | None:
    """Read a quantity in several units, each smaller than the one before it."""
    place = 0
    parts: list[tuple[str, str]] = []
    while match := _PART.match(text, place):
        parts.append((match[1], match[2] or match[3]))
        place = match.end()
    if len(parts) < 2 or place < len(text):
        return None
    first = parts[0][1]
    node = parse_exact_number(parts[0][0])
    largest = Fraction(1)
    for digits, unit in parts[1:]:
        size = units.unit_ratio(first, unit)
        if size is None or not 0 < size < largest:
            return None
        largest = size
        node = ("+", node, ("*", ("number", size, str(size)), parse_exact_number(digits)))
    total = exact(node)
    return Value(("number", total, str(total)), text, first)


def _list(text: str, depth: int) -> Shape | None:
    """Read several things with commas, semicolons, "and" or "or" between them."""
    linked = text
    if re.search(r"\d|[=<>\\]", text):
        linked = _LINKS.sub(lambda match: "\\lor " if any(match.groups()) else "\\land ", text)
    parts, signs = split_with_signs(linked, (";", ",", "\\lor", "\\land"))
    if len(parts) < 2:
        return None
    if ";" in signs and "," in signs:  # groups of several values each
        parts = split_outside_brackets(linked, (";",))
        signs = []
    filled_parts = [part for part in parts if part.strip()]
    if not filled_parts or len(filled_parts) > MAX_ITEMS:
        return None
    if len(filled_parts) == 1:
        return parse_shape(filled_parts[0], depth + 1)
    link = "or" if "\\lor" in signs else "and" if "\\land" in signs else ""
    items = tuple(_flattened(parse_shape(part, depth + 1) for part in filled_parts if part.strip()))
    return Items("", items, "", link)


def _single(text: str, depth: int) -> Shape:
    member, signs = split_with_signs(text, ("\\in", "\\notin"))
    if len(member) == 2 and "\\{" not in member[0]:
        inside = parse_shape(member[1], depth + 1)
        if signs == ["\\notin"]:
            return SetOperation((NamedSet(REALS), inside), ("\\setminus",))
        return inside
    return (
        _set_operation(text, depth)
        or _relation(text, depth)
        or _matrix(text, depth)
        or _bracketed(text, depth)
        or _signs(text, depth)
        or _ratio(text, depth)
        or _value(text)
    )


def _set_operation(text: str, depth: int) -> Shape | None:
    marked = re.sub(r"(?<=[)\]}])\s?U\s?(?=[(\[\\])", r"\\cup ", text)
    marked = re.sub(r"(?<=\\mathbb\{R\})\s?[-\\]\s?(?=\\\{)", r"\\setminus ", marked)
    parts, signs = split_with_signs(marked, SET_SIGNS)
    if not 1 < len(parts) <= MAX_ITEMS or not all(part.strip() for part in parts):
        return None
    return SetOperation(tuple(parse_shape(part, depth + 1) for part in parts), tuple(signs))


def _flattened(items: Iterator[Shape]) -> Iterator[Shape]:
    """Yield the items, with both values of each ± in its place: ±2, 5 is three values."""
    for item in items:
        if isinstance(item, Items) and item.link == "signs":
            yield from item.items
        else:
            yield item


def _relation(text: str, depth: int) -> Shape | None:
    modulus = None
    if match := _MODULUS.search(text):
        residue = _node(text[: match.start()])
        bare = None if residue is None or symbols(residue) else residue
        if bare is not None or "\\equiv" in text or "=" in text:
            modulus = _node(match[1])
            text = text[: match.start()]
        if bare is not None and modulus is not None:  # 3 \pmod 7
            return Relation((Value(bare, text),), (), modulus)
    sides, signs = split_with_signs(text, RELATIONS)
    if not signs or len(signs) > 10 or not all(side.strip() for side in sides):
        return None
    read_sides = tuple(parse_shape(side, depth + 1) for side in sides)
    last = read_sides[-1]
    if isinstance(last, Items) and last.link == "signs" and signs == ["="]:  # x = ±2
        solutions = tuple(Relation((read_sides[0], item), ("=",)) for item in last.items)
        return replace(last, items=solutions)
    return Relation(read_sides, tuple(signs), modulus)


def _node(text: str) -> Node | None:
    try:
        return parse_formula(text.strip())
    except NotAFormula:
        return None


def _matrix(text: str, depth: int) -> Shape | None:
    match = _MATRIX.fullmatch(text)
    if not match or len(match[2]) > 1_000:
        return None
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]{0,40}\])?", match[2]) if row.strip()]
    cells = tuple(
        tuple(parse_shape(cell, depth + 1) for cell in split_outside_brackets(row, ("&",)))
        for row in rows
    )
    return Matrix(cells, is_determinant=match[1] in ("vmatrix", "Vmatrix"))


def _bracketed(text: str, depth: int) -> Shape | None:
    left = next((sign for sign in ("]", *_OPEN) if text.startswith(sign)), None)
    right = next((sign for sign in ("[", *_CLOSE) if text.endswith(sign)), None)
    if left is None or right is None or len(text) < len(left) + len(right):
        return None
    inside = text[len(left) : -len(right)].strip()
    is_reversed = left == "]" or right == "["
    is_whole = find_end(text) == len(text)
    if not is_reversed and not is_whole and (left, right) not in (("(", "]"), ("[", ")")):
        return None
    if left == "\\{" and (builder := _builder(inside, depth)):
        return builder
    parts = split_outside_brackets(inside, (",", ";")) if inside else []
    if (is_reversed and len(parts) != 2) or len(parts) > MAX_ITEMS:
        return None
    if len(parts) == 1 and (left == "(" or "\\begin" in inside):
        within = parse_shape(inside, depth + 1)
        return None if isinstance(within, Value | Words | Unread) else within
    if left == "\\{" and re.search(r"\d|\\", inside):
        inside = _LINKS.sub(",", inside)
        parts = [part for part in split_outside_brackets(inside, (",", ";")) if part.strip()]
    items = tuple(_flattened(parse_shape(part, depth + 1) for part in parts))
    rows = [item.items for item in items if isinstance(item, Items) and item.left == "["]
    if left == "[" and right == "]" and items and len(rows) == len(items):
        return Matrix(tuple(rows))
    opens = {"]": "(", "\\langle": "("}.get(left, left)
    return Items(opens, items, {"[": ")", "\\rangle": ")"}.get(right, right))


def _builder(inside: str, depth: int) -> Shape | None:
    """Read x : x > 3, the inside of a set's braces."""
    for sign in (":", "|"):
        parts = split_outside_brackets(inside, (sign,))
        if len(parts) != 2:
            continue
        name = split_outside_brackets(parts[0], ("\\in",))[0].strip()
        condition = parse_shape(parts[1], depth + 1)
        if re.fullmatch(r"\\?[a-zA-Z]{1,8}", name) and not isinstance(condition, Words | Unread):
            return Builder(name, condition)
    return None


def _signs(text: str, depth: int) -> Shape | None:
    """Read a ± b as the two values that it says."""
    if not _EITHER_SIGN.search(text):
        return None
    upper = re.sub(r"\\pm(?![a-z])", "+", re.sub(r"\\mp(?![a-z])", "-", text))
    lower = re.sub(r"\\pm(?![a-z])", "-", re.sub(r"\\mp(?![a-z])", "+", text))
    return Items("", (parse_shape(upper, depth + 1), parse_shape(lower, depth + 1)), "", "signs")


def _ratio(text: str, depth: int) -> Shape | None:
    if ":" not in text or not _RATIO.fullmatch(text):
        return None
    parts = [part.strip() for part in split_outside_brackets(text, (":",))]
    if len(parts) < 2 or not all(parts) or len(parts) != text.count(":") + 1:
        return None
    part_shapes = [parse_shape(part, depth + 1) for part in parts]
    values = tuple(part for part in part_shapes if isinstance(part, Value))
    return Ratio(values) if len(values) == len(part_shapes) else None


def _value(text: str) -> Shape:
    if money := _money(text):
        return money
    measured = [pair for pair in _measured(text) if not _is_altered_by(pair[1])]
    quantities = [
        pair
        for pair in measured
        if _is_number(pair[0]) and (_has_unit(*pair) or _has_product(text, *pair))
    ]
    worded = [pair for pair in measured if _is_worded(pair[1])]
    for value, unit in (*quantities, (text, ""), *worded):
        if (node := _node(value)) is None:
            continue
        if not unit and node[0] == "degree":
            return Value(node[1], value, "\\degree")
        if not unit and node[0] == "-" and node[1][0] == "degree":
            return Value(("-", node[1][1]), value, "\\degree")
        return Value(node, value, unit)
    return _text(text)


def _is_worded(unit: str) -> bool:
    """Tell an unknown unit in words from a formula that is not understood: 5 apples, 5mod 7."""
    plain = _KNOWN_COMMANDS.sub(" ", re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", unit))
    return "\\" not in plain and not re.search(r"(?<![\d^{-])\d", plain)


def _is_altered_by(unit: str) -> bool:
    """Tell what makes another number of the one before it: squared, plus 1, or more."""
    return is_altered("", re.sub(r"\\text\s?\{([^{}]*)\}", r"\1", unit).strip())


def _has_unit(value: str, unit: str) -> bool:
    """Tell a unit behind a number from letters that are its factors."""
    if units.is_known_unit(unit):
        return not re.fullmatch(r"[a-zA-Z]", unit) or unit.islower() or unit in "ANJWVKLCF"
    words = re.sub(r"\\text\s?\{([^{}]*)\}", r"\1", unit).strip()
    return "\\text" in unit or bool(re.fullmatch(r"[a-z]{2,}(?:\s[a-z]+){0,5}", words))


def _has_product(text: str, value: str, unit: str) -> bool:
    """Tell units that stand together, apart from their number, from letters that are factors."""
    is_apart = text[len(value) :].startswith((" ", "\\text", "\\Omega"))
    return is_apart and units.is_joined_product(unit)


def _money(text: str) -> Value | None:
    """Read -\\usd 7, 7 € and \\usd 7 per hour."""
    if before := _CURRENCY.match(text):
        amount = text[before.end() :].strip()
        sign = before["sign"]
        inner = _value(amount) if amount else None
        if not isinstance(inner, Value):
            return None
        node = ("-", inner.node) if before["minus"] else inner.node
        unit = notation.CURRENCIES[sign]
        if inner.unit and units.parse_unit(inner.unit) != units.parse_unit(unit):
            unit = f"{unit} {inner.unit}"
        return Value(node, text, unit)
    if behind := _CURRENCY_BEHIND.search(text):
        number = _node(text[: behind.start()])
        return Value(number, text, notation.CURRENCIES[behind[1]]) if number else None
    return None


def _is_number(text: str) -> bool:
    """Tell whether a letter behind it is a unit rather than one more symbol."""
    node = _node(text)
    return node is not None and not symbols(node)


def _measured(text: str) -> Iterator[tuple[str, str]]:
    """Split into a value and what stands behind it as a unit, wherever that can be."""
    if len(text) > MAX_MEASURED_LENGTH:
        return
    if "\\text" in text:
        value, _, unit_text = text.partition("\\text")
        before = value.rstrip()
        if before and (before[-1] in "0123456789)}!%" or before.endswith("\\pi")):
            yield before, "\\text" + unit_text
            return
    begin = len(text)
    while begin and text[begin - 1] in _UNIT_SIGNS:
        begin -= 1
    for place in range(max(1, begin), len(text)):
        if text[place - 1] not in "0123456789)}!%" and not text[:place].endswith("\\pi"):
            continue
        unit = text[place:].strip()
        is_apart = text[place] == " "
        is_fraction = unit.startswith("\\frac") and units.is_known_unit(unit)
        is_named = unit[:1].isalpha() or unit.startswith(_NAMED_UNITS)
        if not is_named and not is_fraction:
            continue
        if is_apart or unit[1:2].isalpha() or unit.startswith("\\"):
            yield text[:place].strip(), unit
            return


def _text(text: str) -> Shape:
    """Tell words, which are compared as text, from formulas that are not understood."""
    plain = re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)
    if (figures := spelled_values.in_figures(plain)) and (node := _node(figures)):
        return Value(node, figures)
    if _WORDS.fullmatch(plain) and not re.search(r"\d\s?[-+*/=^]\s?\d", plain):
        return Words(text)
    return Unread(text)


def number_written(value: Value) -> tuple[Fraction, int, int] | None:
    """Return a decimal as written, the power of ten of its last digit, and its significant digits.

    None for what is no plain decimal.
    """
    match = re.fullmatch(
        r"\(?([-+]?)\s*+(\d*+)\.(\d++)(?:[eE]([-+]?\d{1,3}+))?\)?%?", value.text.strip()
    )
    if not match:
        return None
    power = int(match[4] or 0) - len(match[3])
    digits = (match[2] or "0") + match[3]
    number = Fraction(int(digits) * (-1 if match[1] == "-" else 1)) * Fraction(10) ** power
    return number, power, len(digits.lstrip("0"))


def is_symbol(side: Shape) -> bool:
    return isinstance(side, Value) and side.node[0] == "symbol"


def plain_items(shape: Shape) -> Sequence[Shape]:
    """Return the parts of a bare list, or the shape alone."""
    return shape.items if isinstance(shape, Items) and not shape.left else (shape,)
