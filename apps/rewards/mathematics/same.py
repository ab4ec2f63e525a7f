"""Decide whether two answers mean the same."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from apps.rewards.mathematics import (
    decimals,
    naming,
    notation,
    setreading,
    shapes,
    units,
    values,
)
from apps.rewards.mathematics.brackets import strip_braces
from apps.rewards.mathematics.shapes import (
    Items,
    Matrix,
    NamedSet,
    Ratio,
    Relation,
    Shape,
    Unread,
    Value,
    Words,
)

_FLIPPED = {
    "<": ">",
    ">": "<",
    "\\le": "\\ge",
    "\\ge": "\\le",
    "\\subset": "\\supset",
    "\\supset": "\\subset",
    "\\subseteq": "\\supseteq",
    "\\supseteq": "\\subseteq",
}
ORDERED = ("=", "<", ">", "\\le", "\\ge", "\\ne")  # signs between numbers
LETTER = re.compile(r"\(?\s*+([A-Ja-j])\s*+\)?")
# A letter with a sign that makes it a label; a whole item that is one letter.
LABELS = re.compile(
    r"\(\s?([A-J])\s?\)|(?<![A-Za-z\\])([A-J])(?:[.:)]|(?=\s?(?:,|;|$|\sand\b|\sor\b)))"
)
# Words before a letter that is chosen: "Option D", "(d)".
_CHOICE = re.compile(
    r"^(?:the\s)?(?:(?:correct|right|best|final)\s)?(?:answer|option|choice)\s?(?:is\b|:)?\s*", re.I
)
_IN_SQUARES = re.compile(r"^\[{1,2}\s?([A-J])\s?\]{1,2}$")
_LETTERS = re.compile(
    r"\(?[A-J]\)?(?:\s?(?:,\s?and\s|,|;|&|\\land|\sand\s|、|和)\s?\(?[A-J]\)?){1,9}"
)
_SYNONYMS = {
    "no solution exists": "no solution",
    "no solutions exist": "no solution",
    "no solutions": "no solution",
    "there is no solution": "no solution",
    "there are no solutions": "no solution",
    "infinitely many solutions": "infinitely many",
    "there are infinitely many": "infinitely many",
    "there are infinitely many solutions": "infinitely many",
    "dne": "does not exist",
    "doesn't exist": "does not exist",
    "doesnt exist": "does not exist",
    "none exist": "does not exist",
}
CHOSEN = re.compile(r"\(\s?([A-J])\s?\)|([A-J])(?:\s?[.:)]|$)")


@dataclass(frozen=True)
class Rules:
    """Rules of comparison.

    `percent`: 50 % is 0.5; `units`: units may be left out; `tolerance`: relative.
    """

    percent: bool = True
    units: bool = True
    tolerance: float = 0.0


def flipped(sign: str) -> str:
    """Return the sign with its sides in the other order."""
    return _FLIPPED.get(sign, sign)


def same_answer(expected: str, given: str, rules: Rules) -> bool:
    """Compare under any of the readings of both."""
    if not given.strip() or not expected.strip():
        return False
    ours = bare(expected)
    theirs = bare(given)
    if several := _list_letters(ours):
        return several == (_list_letters(theirs) or _list_joined_letters(theirs))
    letter = LETTER.fullmatch(ours)
    if letter and (ours.strip("() ").isupper() or "(" in ours):
        picked = _IN_SQUARES.sub(r"\1", _CHOICE.sub("", theirs))
        picked = picked.upper() if re.fullmatch(r"\(\s?[a-j]\s?\)", picked) else picked
        return letter[1].upper() == find_chosen_letter(picked)
    if ours == theirs:
        return True
    if _is_word(ours) and _is_word(theirs):
        return ours.casefold() == theirs.casefold()
    if labelled := re.match(r"\(([A-J])\)\s*(?=\S)", ours):  # "(B) 12" is B, and 12
        if find_chosen_letter(theirs) is not None:
            return find_chosen_letter(theirs) == labelled[1]
        return same_answer(ours[labelled.end() :], given, rules)
    return any(
        any(
            same(each, other, rules)
            for each in read_all_meanings(one)
            for other in read_all_meanings(two)
        )
        for one, two in _spellings(expected, given)
    )


def _list_letters(text: str) -> frozenset[str]:
    """Return the letters of a list of choices, as "A, C"; empty for anything else."""
    found = re.findall(r"[A-J]", text) if _LETTERS.fullmatch(text) else []
    return frozenset(found) if len(set(found)) == len(found) else frozenset()


def _list_joined_letters(text: str) -> frozenset[str]:
    """Return the letters of choices that stand side by side, as "AC"."""
    return frozenset(text) if re.fullmatch(r"[A-J]{2,10}", text) else frozenset()


def _spellings(expected: str, given: str) -> Iterator[tuple[str, str]]:
    """Yield both texts as they are, and with usual letters for what has no name of its own.

    These are the constant of integration, and the whole number that numbers the solutions.
    """
    yield expected, given
    ours = naming.with_usual_letters(expected)
    theirs = naming.with_usual_letters(given)
    if ours and theirs:
        yield ours, theirs


def _is_word(text: str) -> bool:
    """Tell short words (no, odd, tie) from products of letters (ab, mn)."""
    return bool(re.fullmatch(r"[a-zA-Z]{2,3}", text)) and bool(re.search(r"[eiou]", text))


@lru_cache(maxsize=256)
def read_all_meanings(text: str) -> tuple[Shape, ...]:
    return tuple(shapes.list_meanings(text))


def find_chosen_letter(text: str) -> str | None:
    """Return the one letter that is picked; None for none and for several."""
    first = CHOSEN.match(text)
    letters = {letter for found in LABELS.findall(text) for letter in found if letter}
    if first is None or len(letters | {first[1] or first[2]}) > 1:
        return None
    return first[1] or first[2]


def bare(text: str) -> str:
    """Return the cleaned text without marks of text, quotes and a final stop."""
    text = strip_braces(notation.clean(text))
    text = re.sub(r"\\text\s?\{([^{}]*)\}", r"\1", text)
    return " ".join(text.split()).strip(" .")


def is_unread(text: str) -> bool:
    """Tell whether no reading of the text is understood."""
    return all(isinstance(each, Unread) for each in read_all_meanings(text))


def same(expected: Shape, given: Shape, rules: Rules) -> bool:
    """Compare two shapes; `expected` says what may be left out."""
    match expected, given:
        case Value(), Value():
            return _same_value(expected, given, rules)
        case Unread(), Unread():
            return _tight(expected.text) == _tight(given.text)
        case (Words(), _) | (_, Words()):
            return _same_words(expected, given, rules)
        case NamedSet(), NamedSet():
            return expected.name == given.name
        case Items(), Items() if _same_items(expected, given, rules):
            return True
        case Matrix(), Matrix():
            return _same_matrix(expected, given, rules)
        case (Matrix(), Items()) | (Items(), Matrix()):
            return _same_vector(expected, given, rules)
        case (Ratio(), _) | (_, Ratio()):
            return _same_ratio(expected, given, rules)
    has_relation = isinstance(expected, Relation) or isinstance(given, Relation)
    if has_relation and _same_relation(expected, given, rules):
        return True
    if _alone(expected, given, rules):
        return True
    return setreading.same_set(expected, given)


def _alone(expected: Shape, given: Shape, rules: Rules) -> bool:
    """Tell whether the one is a set of a single value and the other that value: {5} and 5."""
    one, other = (expected, given) if isinstance(expected, Items) else (given, expected)
    if not isinstance(one, Items) or isinstance(other, Items | NamedSet) or one.left != "\\{":
        return False
    return len(one.items) == 1 and same(one.items[0], other, rules)


def _tight(text: str) -> str:
    return re.sub(r"\s+|\\(?=\s)", "", text)


def _same_words(expected: Shape, given: Shape, rules: Rules) -> bool:
    """Compare as text; a name before "=" may be left out."""
    if isinstance(expected, Relation) and naming.is_assignment(expected):
        return same(expected.sides[-1], given, rules)
    if isinstance(given, Relation) and naming.is_assignment(given):
        return same(expected, given.sides[-1], rules)
    if isinstance(expected, NamedSet) or isinstance(given, NamedSet):
        return False
    if not (isinstance(expected, Words | Value) and isinstance(given, Words | Value)):
        return False
    ours = _words(expected.text)
    theirs = _words(given.text)
    return bool(ours) and ours == theirs


def _words(text: str) -> str:
    plain = re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)
    given = " ".join(re.sub(r"[\"'“”]", "", plain).casefold().split()).strip(" .!,")
    return _SYNONYMS.get(given, given)


def _same_value(expected: Value, given: Value, rules: Rules) -> bool:
    factor = _unit_factor(expected, given, rules)
    if factor is None:
        in_degrees = _in_degrees(expected, given)
        if in_degrees is None:
            return False
        given = in_degrees
        factor = Fraction(1)
    if factor != 1:
        given = Value(("*", ("number", factor, ""), given.node), given.text, expected.unit)
    based = [value.node for value in (expected, given) if value.node[0] == "based"]
    if based:
        return _same_in_base(expected.node, given.node)
    is_same = values.has_same_value(expected.node, given.node) or values.has_same_value(
        values.of_ten(expected.node), values.of_ten(given.node)
    )
    if is_same:
        return rules.percent or expected.is_percent == given.is_percent or _is_zero(given)
    if _same_percent(expected, given):
        return True
    if factor == 1 and decimals.rounds_to(expected, given):
        return True
    return decimals.within(expected, given, rules.tolerance)


def _same_in_base(expected: tuple, given: tuple) -> bool:
    """Tell whether both are the same digits in the same base, which may be left out."""
    if expected[0] == given[0] == "based":
        return expected[3] == given[3] and expected[2].lstrip("0") == given[2].lstrip("0")
    based, other = (expected, given) if expected[0] == "based" else (given, expected)
    return other[0] == "number" and other[2].lstrip("0") == based[2].lstrip("0")


def _is_zero(value: Value) -> bool:
    return values.has_same_value(value.node, ("number", Fraction(0), "0"))


def _unit_factor(expected: Value, given: Value, rules: Rules) -> Fraction | None:
    """Return how many of the wanted unit the given unit is; None for another quantity."""
    if expected.unit == given.unit:
        return Fraction(1)
    if expected.is_percent or given.is_percent:
        return None
    if expected.unit and given.unit:
        return units.unit_ratio(expected.unit, given.unit)
    if not rules.units or any(units.is_joined_product(one.unit) for one in (expected, given)):
        return None
    return _radians(expected, given) or Fraction(1)


def _in_degrees(expected: Value, given: Value) -> Value | None:
    """Return a temperature in the degrees that are wanted; None for other quantities."""
    scale = units.scale(expected.unit, given.unit)
    if scale is None:
        return None
    factor, offset = scale
    scaled = ("*", ("number", factor, str(factor)), given.node)
    return Value(("+", scaled, ("number", offset, str(offset))), given.text, expected.unit)


def _radians(expected: Value, given: Value) -> Fraction | None:
    """Take a bare multiple of π for radians, where the other one is in degrees."""
    ours, theirs = (naming.has_pi(value.node) for value in (expected, given))
    if given.unit and units.unit_ratio("rad", given.unit) and ours:
        return units.unit_ratio("rad", given.unit)
    if expected.unit and units.unit_ratio(expected.unit, "rad") and theirs:
        return units.unit_ratio(expected.unit, "rad")
    return None


def _same_percent(expected: Value, given: Value) -> bool:
    """Tell whether only the percent sign was left out: 50 % and 50.

    Below 1 that would be another number.
    """
    if expected.is_percent == given.is_percent:
        return False
    percent, plain = (expected, given) if expected.is_percent else (given, expected)
    try:
        hundredfold = values.exact(percent.node) * 100
        number = values.exact(plain.node)
    except (values.NotExact, values.NoValue):
        return False
    return hundredfold == number and abs(number) > 1


def _same_items(expected: Items, given: Items, rules: Rules) -> bool:
    """Tell whether both have the same items; sets and bare lists in any order, others in theirs.

    A pair may stand without its brackets. Named values stand for what they name in order.
    """
    if {expected.link, given.link} == {"and", "or"} and all(map(shapes.is_symbol, expected.items)):
        return False  # p and q, p or q
    if given.link == "or" != expected.link and _named_apart(given.items):
        return False  # x = 2 or y = 3
    if {expected.left, given.left} <= {"", "\\{"}:
        ours = list(expected.items)
        theirs = list(given.items)
        if _named_apart(ours) and not any(isinstance(item, Relation) for item in theirs):
            return _all_same(ours, theirs, rules)
        if "\\{" in (expected.left, given.left):
            ours = _distinct(ours, rules)
            theirs = _distinct(theirs, rules)
        return _matched(ours, theirs, rules)
    if expected.left == "" and _named_apart(expected.items) and given.left == "(":
        return _all_same(_in_order(expected.items), given.items, rules)
    if expected.left == "(" and given.left == "" and _named_apart(given.items):
        return _all_same(expected.items, _in_order(given.items), rules)
    brackets = {expected.left + expected.right, given.left + given.right}
    if brackets in ({"()", "[]"}, {"()", "\\langle\\rangle"}) and len(expected.items) > 2:
        return _all_same(expected.items, given.items, rules)  # vectors: no interval has three ends
    if given.left != "" and (expected.left, expected.right) != (given.left, given.right):
        return False
    if expected.left == "" or (given.left == "" and expected.left + expected.right != "()"):
        return False
    return _all_same(expected.items, given.items, rules)


def _in_order(items: Sequence[Shape]) -> list[Shape]:
    """Return named values in the order of their names: y = 2, x = 1 is the point (1, 2)."""
    firsts = [item.sides[0] for item in items if isinstance(item, Relation)]
    names = [name.text for name in firsts if isinstance(name, Value) and shapes.is_symbol(name)]
    if len(names) < len(items):
        return list(items)
    return [items[place] for place in sorted(range(len(items)), key=names.__getitem__)]


def _named_apart(items: Sequence[Shape]) -> bool:
    """Tell whether each is a value with a name of its own."""
    if not all(naming.is_assignment(item) for item in items):
        return False
    firsts = [item.sides[0] for item in items if isinstance(item, Relation)]
    names = [name.text for name in firsts if isinstance(name, Value | Words)]
    return len(set(names)) == len(items)


def _distinct(items: list[Shape], rules: Rules) -> list[Shape]:
    found: list[Shape] = []
    for item in items:
        if not any(same(other, item, rules) for other in found):
            found.append(item)
    return found


def _matched(ours: list[Shape], theirs: list[Shape], rules: Rules) -> bool:
    """Pair each of ours with another of theirs."""
    if len(ours) < len(theirs) and len(_distinct(ours, rules)) == len(ours):
        theirs = _distinct(theirs, rules)
    if len(ours) != len(theirs):
        return False
    left = list(theirs)
    for item in ours:
        place = next((at for at, other in enumerate(left) if same(item, other, rules)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def _same_matrix(expected: Matrix, given: Matrix, rules: Rules) -> bool:
    if expected.is_determinant != given.is_determinant:
        return False
    if [len(row) for row in expected.rows] != [len(row) for row in given.rows]:
        return False
    ours, theirs = ([cell for row in matrix.rows for cell in row] for matrix in (expected, given))
    return _all_same(ours, theirs, rules)


def _same_vector(expected: Shape, given: Shape, rules: Rules) -> bool:
    """Tell whether a matrix of one row or one column and a tuple have the same numbers."""
    matrix, items = (expected, given) if isinstance(expected, Matrix) else (given, expected)
    if not isinstance(matrix, Matrix) or not isinstance(items, Items):
        return False
    if items.left not in ("(", "[") or matrix.is_determinant:
        return False
    rows = matrix.rows
    if len(rows) != 1 and any(len(row) != 1 for row in rows):
        return False
    cells = rows[0] if len(rows) == 1 else [row[0] for row in rows]
    first, second = (cells, items.items) if matrix is expected else (items.items, cells)
    return _all_same(first, second, rules)


def _same_ratio(expected: Shape, given: Shape, rules: Rules) -> bool:
    """Compare ratios by proportion, and a ratio of two with its quotient; times of day as text."""
    if isinstance(expected, Relation) or isinstance(given, Relation):
        return _same_relation(expected, given, rules)
    if isinstance(expected, Ratio) and isinstance(given, Ratio):
        if _is_time(expected) and _is_time(given):
            return _times(expected) == _times(given)
        return len(expected.parts) == len(given.parts) and _proportional(expected, given)
    ratio, other = (expected, given) if isinstance(expected, Ratio) else (given, expected)
    if not isinstance(ratio, Ratio) or len(ratio.parts) != 2:
        return False
    if not isinstance(other, Value) or other.unit:
        return False
    return values.has_same_value(("/", ratio.parts[0].node, ratio.parts[1].node), other.node)


def _is_time(ratio: Ratio) -> bool:
    """Tell whether a ratio may be a time of day, such as 3:45."""
    texts = [part.text for part in ratio.parts]
    return len(texts) == 2 and bool(re.fullmatch(r"\d{1,2}:[0-5]\d", ":".join(texts)))


def _times(ratio: Ratio) -> list[tuple]:
    return [(part.text, units.parse_unit(part.unit)) for part in ratio.parts]


def _proportional(expected: Ratio, given: Ratio) -> bool:
    if [part.unit for part in expected.parts] != [part.unit for part in given.parts]:
        return False
    first = ("/", given.parts[0].node, expected.parts[0].node)
    return all(
        values.has_same_value(("*", ours.node, first), theirs.node)
        for ours, theirs in zip(expected.parts, given.parts, strict=True)
    )


def _all_same(ours: Sequence[Shape], theirs: Sequence[Shape], rules: Rules) -> bool:
    """Tell whether each item is the same as the one in its place."""
    return len(ours) == len(theirs) and all(
        same(a, b, rules) for a, b in zip(ours, theirs, strict=True)
    )


def _same_relation(expected: Shape, given: Shape, rules: Rules) -> bool:
    if isinstance(expected, Relation) and isinstance(given, Relation):
        return _same_relations(expected, given, rules)
    if isinstance(given, Relation):
        return _says(given, expected, rules)
    return isinstance(expected, Relation) and any(
        same(value, given, rules) for value in naming.list_candidate_values(expected)
    )


def _says(given: Relation, expected: Shape, rules: Rules) -> bool:
    """Tell whether a chain such as x = 1/2 ≈ 0.5 gives the wanted value: all its sides agree."""
    sides = list(given.sides)
    signs = list(given.signs)
    if not set(signs) <= {"=", "\\approx"}:
        return False
    if len(sides) == 2 and not naming.is_name(sides[0]) and naming.is_name(sides[1]):
        sides.reverse()
    is_rounded = signs[:1] == ["\\approx"] and naming.is_closed(sides[0])  # e ≈ 2.718
    if naming.is_name(sides[0]) and not is_rounded:
        sides = sides[1:]
        signs = signs[1:]
    elif not naming.is_closed(sides[0]):
        return False
    if len(sides) == 2 and signs == ["\\approx"] and _is_decimal(sides[0]):
        sides.reverse()
    exact = sides[: signs.index("\\approx") + 1] if "\\approx" in signs else sides
    closed = [side for side in exact[:-1] if naming.is_closed(side)] + exact[-1:]
    if not all(same(expected, side, rules) for side in closed):
        return False
    return all(decimals.is_near(exact[-1], side) for side in sides[len(exact) :])


def _is_decimal(side: Shape) -> bool:
    return isinstance(side, Value) and shapes.number_written(side) is not None


def _same_relations(expected: Relation, given: Relation, rules: Rules) -> bool:
    if expected.modulus is not None or given.modulus is not None:
        return _same_residues(expected, given, rules)
    is_solution = naming.is_assignment(expected) and naming.is_solved(expected)
    if is_solution and set(given.signs) <= {"=", "\\approx"}:
        return _same_solution(expected, given, rules)
    if expected.signs == given.signs == ("=",) and naming.is_same_name(
        expected.sides[0], given.sides[0]
    ):
        return same(expected.sides[1], given.sides[1], rules)
    if len(expected.signs) == len(given.signs) == 1:
        return _same_two_sides(expected, given, rules)
    backward = Relation(expected.sides[::-1], tuple(flipped(sign) for sign in expected.signs[::-1]))
    return any(
        each.signs == given.signs and _all_same(each.sides, given.sides, rules)
        for each in (expected, backward)
    )


def _same_solution(expected: Relation, given: Relation, rules: Rules) -> bool:
    """Tell whether both give the same name and value, as x = 6; 3x = 18 is not solved."""
    first = given.sides[0]
    last = given.sides[-1]
    if same(expected.sides[0], first, rules) or naming.is_same_name(expected.sides[0], first):
        return _says(given, expected.sides[-1], rules)
    turned = len(given.sides) == 2 and same(expected.sides[0], last, rules)
    return turned and same(expected.sides[-1], first, rules)


def _same_residues(expected: Relation, given: Relation, rules: Rules) -> bool:
    """Tell whether two congruences have one modulus, and sides that differ by its multiples."""
    if expected.modulus is None or given.modulus is None or len(expected.sides) != len(given.sides):
        return False
    if not values.has_same_value(expected.modulus, given.modulus):
        return False
    pairs = zip(expected.sides, given.sides, strict=True)
    return all(same(a, b, rules) or _congruent(a, b, expected.modulus) for a, b in pairs)


def _congruent(one: Shape, other: Shape, modulus: tuple) -> bool:
    if not (isinstance(one, Value) and isinstance(other, Value)):
        return False
    try:
        distance = values.exact(one.node) - values.exact(other.node)
        return (distance / values.exact(modulus)).denominator == 1
    except (values.NotExact, values.NoValue, ZeroDivisionError):
        return False


def _same_two_sides(expected: Relation, given: Relation, rules: Rules) -> bool:
    """Compare equations up to a factor; a solved inequality is only the same when solved."""
    backward = Relation(given.sides[::-1], tuple(flipped(sign) for sign in given.signs[::-1]))
    for each in (given, backward):
        if expected.signs == each.signs and _all_same(expected.sides, each.sides, rules):
            return True
    if naming.is_solved(expected):
        return False
    nodes = [
        [side.node for side in each.sides if isinstance(side, Value)] for each in (expected, given)
    ]
    if [len(own) for own in nodes] != [len(expected.sides), len(given.sides)]:
        return False
    ours, theirs = (("+", own[0], ("-", own[1])) for own in nodes)
    factor = _factor(ours, theirs)
    if not factor or given.signs[0] not in ORDERED:
        return False
    return expected.signs[0] == (given.signs[0] if factor > 0 else flipped(given.signs[0]))


def _factor(ours: tuple, theirs: tuple) -> float:
    """Return how many times the one is the other, everywhere; 0 where it is not."""
    names = sorted(values.symbols(ours) | values.symbols(theirs))
    if not names or values.symbols(ours) != values.symbols(theirs):
        return 0.0
    first = values.choose_test_points(names)[0]
    try:
        top = values.exact(ours, first)
        bottom = values.exact(theirs, first)
    except (values.NotExact, values.NoValue):
        return _plain_factor(ours, theirs)
    if not top or not bottom:
        return 0.0
    factor = top / bottom
    scaled = ("*", ("number", factor, str(factor)), theirs)
    return float(factor) if values.has_same_value(ours, scaled) else 0.0


def _plain_factor(ours: tuple, theirs: tuple) -> float:
    """Return 1 for equal values, -1 for opposite ones, 0 for others.

    It serves values that are no fractions, where only a change of sides can be recognised.
    """
    if values.has_same_value(ours, theirs):
        return 1.0
    return -1.0 if values.has_same_value(ours, ("-", theirs)) else 0.0
