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


def same_answer(wanted: str, said: str, rules: Rules) -> bool:
    """Compare under any of the readings of both."""
    if not said.strip() or not wanted.strip():
        return False
    ours = bare(wanted)
    theirs = bare(said)
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
        return same_answer(ours[labelled.end() :], said, rules)
    return any(
        any(
            same(each, other, rules)
            for each in read_all_meanings(one)
            for other in read_all_meanings(two)
        )
        for one, two in _spellings(wanted, said)
    )


def _list_letters(text: str) -> frozenset[str]:
    """Return the letters of a list of choices, as "A, C"; empty for anything else."""
    found = re.findall(r"[A-J]", text) if _LETTERS.fullmatch(text) else []
    return frozenset(found) if len(set(found)) == len(found) else frozenset()


def _list_joined_letters(text: str) -> frozenset[str]:
    """Return the letters of choices that stand side by side, as "AC"."""
    return frozenset(text) if re.fullmatch(r"[A-J]{2,10}", text) else frozenset()


def _spellings(wanted: str, said: str) -> Iterator[tuple[str, str]]:
    """Yield both texts as they are, and with usual letters for what has no name of its own.

    These are the constant of integration, and the whole number that numbers the solutions.
    """
    yield wanted, said
    ours = naming.with_usual_letters(wanted)
    theirs = naming.with_usual_letters(said)
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


def same(wanted: Shape, said: Shape, rules: Rules) -> bool:
    """Compare two shapes; `wanted` says what may be left out."""
    match wanted, said:
        case Value(), Value():
            return _same_value(wanted, said, rules)
        case Unread(), Unread():
            return _tight(wanted.text) == _tight(said.text)
        case (Words(), _) | (_, Words()):
            return _same_words(wanted, said, rules)
        case NamedSet(), NamedSet():
            return wanted.name == said.name
        case Items(), Items() if _same_items(wanted, said, rules):
            return True
        case Matrix(), Matrix():
            return _same_matrix(wanted, said, rules)
        case (Matrix(), Items()) | (Items(), Matrix()):
            return _same_vector(wanted, said, rules)
        case (Ratio(), _) | (_, Ratio()):
            return _same_ratio(wanted, said, rules)
    has_relation = isinstance(wanted, Relation) or isinstance(said, Relation)
    if has_relation and _same_relation(wanted, said, rules):
        return True
    if _alone(wanted, said, rules):
        return True
    return setreading.same_set(wanted, said)


def _alone(wanted: Shape, said: Shape, rules: Rules) -> bool:
    """Tell whether the one is a set of a single value and the other that value: {5} and 5."""
    one, other = (wanted, said) if isinstance(wanted, Items) else (said, wanted)
    if not isinstance(one, Items) or isinstance(other, Items | NamedSet) or one.left != "\\{":
        return False
    return len(one.items) == 1 and same(one.items[0], other, rules)


def _tight(text: str) -> str:
    return re.sub(r"\s+|\\(?=\s)", "", text)


def _same_words(wanted: Shape, said: Shape, rules: Rules) -> bool:
    """Compare as text; a name before "=" may be left out."""
    if isinstance(wanted, Relation) and naming.is_assignment(wanted):
        return same(wanted.sides[-1], said, rules)
    if isinstance(said, Relation) and naming.is_assignment(said):
        return same(wanted, said.sides[-1], rules)
    if isinstance(wanted, NamedSet) or isinstance(said, NamedSet):
        return False
    if not (isinstance(wanted, Words | Value) and isinstance(said, Words | Value)):
        return False
    ours = _words(wanted.text)
    theirs = _words(said.text)
    return bool(ours) and ours == theirs


def _words(text: str) -> str:
    plain = re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)
    said = " ".join(re.sub(r"[\"'“”]", "", plain).casefold().split()).strip(" .!,")
    return _SYNONYMS.get(said, said)


def _same_value(wanted: Value, said: Value, rules: Rules) -> bool:
    factor = _unit_factor(wanted, said, rules)
    if factor is None:
        in_degrees = _in_degrees(wanted, said)
        if in_degrees is None:
            return False
        said = in_degrees
        factor = Fraction(1)
    if factor != 1:
        said = Value(("*", ("number", factor, ""), said.node), said.text, wanted.unit)
    based = [value.node for value in (wanted, said) if value.node[0] == "based"]
    if based:
        return _same_in_base(wanted.node, said.node)
    is_same = values.has_same_value(wanted.node, said.node) or values.has_same_value(
        values.of_ten(wanted.node), values.of_ten(said.node)
    )
    if is_same:
        return rules.percent or wanted.is_percent == said.is_percent or _is_zero(said)
    if _same_percent(wanted, said):
        return True
    if factor == 1 and decimals.rounds_to(wanted, said):
        return True
    return decimals.within(wanted, said, rules.tolerance)


def _same_in_base(wanted: tuple, said: tuple) -> bool:
    """Tell whether both are the same digits in the same base, which may be left out."""
    if wanted[0] == said[0] == "based":
        return wanted[3] == said[3] and wanted[2].lstrip("0") == said[2].lstrip("0")
    based, other = (wanted, said) if wanted[0] == "based" else (said, wanted)
    return other[0] == "number" and other[2].lstrip("0") == based[2].lstrip("0")


def _is_zero(value: Value) -> bool:
    return values.has_same_value(value.node, ("number", Fraction(0), "0"))


def _unit_factor(wanted: Value, said: Value, rules: Rules) -> Fraction | None:
    """Return how many of the wanted unit the given unit is; None for another quantity."""
    if wanted.unit == said.unit:
        return Fraction(1)
    if wanted.is_percent or said.is_percent:
        return None
    if wanted.unit and said.unit:
        return units.unit_ratio(wanted.unit, said.unit)
    if not rules.units or any(units.is_joined_product(one.unit) for one in (wanted, said)):
        return None
    return _radians(wanted, said) or Fraction(1)


def _in_degrees(wanted: Value, said: Value) -> Value | None:
    """Return a temperature in the degrees that are wanted; None for other quantities."""
    scale = units.scale(wanted.unit, said.unit)
    if scale is None:
        return None
    factor, offset = scale
    scaled = ("*", ("number", factor, str(factor)), said.node)
    return Value(("+", scaled, ("number", offset, str(offset))), said.text, wanted.unit)


def _radians(wanted: Value, said: Value) -> Fraction | None:
    """Take a bare multiple of π for radians, where the other one is in degrees."""
    ours, theirs = (naming.has_pi(value.node) for value in (wanted, said))
    if said.unit and units.unit_ratio("rad", said.unit) and ours:
        return units.unit_ratio("rad", said.unit)
    if wanted.unit and units.unit_ratio(wanted.unit, "rad") and theirs:
        return units.unit_ratio(wanted.unit, "rad")
    return None


def _same_percent(wanted: Value, said: Value) -> bool:
    """Tell whether only the percent sign was left out: 50 % and 50.

    Below 1 that would be another number.
    """
    if wanted.is_percent == said.is_percent:
        return False
    percent, plain = (wanted, said) if wanted.is_percent else (said, wanted)
    try:
        told = values.exact(percent.node) * 100
        number = values.exact(plain.node)
    except (values.NotExact, values.NoValue):
        return False
    return told == number and abs(number) > 1


def _same_items(wanted: Items, said: Items, rules: Rules) -> bool:
    """Tell whether both have the same items; sets and bare lists in any order, others in theirs.

    A pair may stand without its brackets. Named values stand for what they name in order.
    """
    if {wanted.link, said.link} == {"and", "or"} and all(map(shapes.is_symbol, wanted.items)):
        return False  # p and q, p or q
    if {wanted.left, said.left} <= {"", "\\{"}:
        ours = list(wanted.items)
        theirs = list(said.items)
        if _named_apart(ours) and not any(isinstance(item, Relation) for item in theirs):
            return _all_same(ours, theirs, rules)
        if "\\{" in (wanted.left, said.left):
            ours = _distinct(ours, rules)
            theirs = _distinct(theirs, rules)
        return _matched(ours, theirs, rules)
    if wanted.left == "" and _named_apart(wanted.items) and said.left == "(":
        return _all_same(_in_order(wanted.items), said.items, rules)
    if wanted.left == "(" and said.left == "" and _named_apart(said.items):
        return _all_same(wanted.items, _in_order(said.items), rules)
    if said.left != "" and (wanted.left, wanted.right) != (said.left, said.right):
        return False
    if wanted.left == "" or (said.left == "" and wanted.left + wanted.right != "()"):
        return False
    return _all_same(wanted.items, said.items, rules)


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


def _same_matrix(wanted: Matrix, said: Matrix, rules: Rules) -> bool:
    if wanted.is_determinant != said.is_determinant:
        return False
    if [len(row) for row in wanted.rows] != [len(row) for row in said.rows]:
        return False
    ours, theirs = ([cell for row in matrix.rows for cell in row] for matrix in (wanted, said))
    return _all_same(ours, theirs, rules)


def _same_vector(wanted: Shape, said: Shape, rules: Rules) -> bool:
    """Tell whether a matrix of one row or one column and a tuple have the same numbers."""
    matrix, items = (wanted, said) if isinstance(wanted, Matrix) else (said, wanted)
    if not isinstance(matrix, Matrix) or not isinstance(items, Items):
        return False
    if items.left not in ("(", "[") or matrix.is_determinant:
        return False
    rows = matrix.rows
    if len(rows) != 1 and any(len(row) != 1 for row in rows):
        return False
    cells = rows[0] if len(rows) == 1 else [row[0] for row in rows]
    first, second = (cells, items.items) if matrix is wanted else (items.items, cells)
    return _all_same(first, second, rules)


def _same_ratio(wanted: Shape, said: Shape, rules: Rules) -> bool:
    """Compare ratios by proportion, and a ratio of two with its quotient; times of day as text."""
    if isinstance(wanted, Relation) or isinstance(said, Relation):
        return _same_relation(wanted, said, rules)
    if isinstance(wanted, Ratio) and isinstance(said, Ratio):
        if _is_time(wanted) and _is_time(said):
            return _times(wanted) == _times(said)
        return len(wanted.parts) == len(said.parts) and _proportional(wanted, said)
    ratio, other = (wanted, said) if isinstance(wanted, Ratio) else (said, wanted)
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


def _proportional(wanted: Ratio, said: Ratio) -> bool:
    if [part.unit for part in wanted.parts] != [part.unit for part in said.parts]:
        return False
    first = ("/", said.parts[0].node, wanted.parts[0].node)
    return all(
        values.has_same_value(("*", ours.node, first), theirs.node)
        for ours, theirs in zip(wanted.parts, said.parts, strict=True)
    )


def _all_same(ours: Sequence[Shape], theirs: Sequence[Shape], rules: Rules) -> bool:
    """Tell whether each item is the same as the one in its place."""
    return len(ours) == len(theirs) and all(
        same(a, b, rules) for a, b in zip(ours, theirs, strict=True)
    )


def _same_relation(wanted: Shape, said: Shape, rules: Rules) -> bool:
    if isinstance(wanted, Relation) and isinstance(said, Relation):
        return _same_relations(wanted, said, rules)
    if isinstance(said, Relation):
        return _says(said, wanted, rules)
    return isinstance(wanted, Relation) and any(
        same(value, said, rules) for value in naming.list_candidate_values(wanted)
    )


def _says(said: Relation, wanted: Shape, rules: Rules) -> bool:
    """Tell whether a chain such as x = 1/2 ≈ 0.5 gives the wanted value: all its sides agree."""
    sides = list(said.sides)
    signs = list(said.signs)
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
    told = [side for side in exact[:-1] if naming.is_closed(side)] + exact[-1:]
    if not all(same(wanted, side, rules) for side in told):
        return False
    return all(decimals.is_near(exact[-1], side) for side in sides[len(exact) :])


def _is_decimal(side: Shape) -> bool:
    return isinstance(side, Value) and shapes.number_written(side) is not None


def _same_relations(wanted: Relation, said: Relation, rules: Rules) -> bool:
    if wanted.modulus is not None or said.modulus is not None:
        return _same_residues(wanted, said, rules)
    is_solution = naming.is_assignment(wanted) and naming.is_solved(wanted)
    if is_solution and set(said.signs) <= {"=", "\\approx"}:
        return _same_solution(wanted, said, rules)
    if wanted.signs == said.signs == ("=",) and naming.is_same_name(wanted.sides[0], said.sides[0]):
        return same(wanted.sides[1], said.sides[1], rules)
    if len(wanted.signs) == len(said.signs) == 1:
        return _same_two_sides(wanted, said, rules)
    backward = Relation(wanted.sides[::-1], tuple(flipped(sign) for sign in wanted.signs[::-1]))
    return any(
        each.signs == said.signs and _all_same(each.sides, said.sides, rules)
        for each in (wanted, backward)
    )


def _same_solution(wanted: Relation, said: Relation, rules: Rules) -> bool:
    """Tell whether both give the same name and value, as x = 6; 3x = 18 is not solved."""
    first = said.sides[0]
    last = said.sides[-1]
    if same(wanted.sides[0], first, rules) or naming.is_same_name(wanted.sides[0], first):
        return _says(said, wanted.sides[-1], rules)
    turned = len(said.sides) == 2 and same(wanted.sides[0], last, rules)
    return turned and same(wanted.sides[-1], first, rules)


def _same_residues(wanted: Relation, said: Relation, rules: Rules) -> bool:
    """Tell whether two congruences have one modulus, and sides that differ by its multiples."""
    if wanted.modulus is None or said.modulus is None or len(wanted.sides) != len(said.sides):
        return False
    if not values.has_same_value(wanted.modulus, said.modulus):
        return False
    pairs = zip(wanted.sides, said.sides, strict=True)
    return all(same(a, b, rules) or _congruent(a, b, wanted.modulus) for a, b in pairs)


def _congruent(one: Shape, other: Shape, modulus: tuple) -> bool:
    if not (isinstance(one, Value) and isinstance(other, Value)):
        return False
    try:
        distance = values.exact(one.node) - values.exact(other.node)
        return (distance / values.exact(modulus)).denominator == 1
    except (values.NotExact, values.NoValue, ZeroDivisionError):
        return False


def _same_two_sides(wanted: Relation, said: Relation, rules: Rules) -> bool:
    """Compare equations up to a factor; a solved inequality is only the same when solved."""
    backward = Relation(said.sides[::-1], tuple(flipped(sign) for sign in said.signs[::-1]))
    for each in (said, backward):
        if wanted.signs == each.signs and _all_same(wanted.sides, each.sides, rules):
            return True
    if naming.is_solved(wanted):
        return False
    nodes = [
        [side.node for side in each.sides if isinstance(side, Value)] for each in (wanted, said)
    ]
    if [len(own) for own in nodes] != [len(wanted.sides), len(said.sides)]:
        return False
    ours, theirs = (("+", own[0], ("-", own[1])) for own in nodes)
    factor = _factor(ours, theirs)
    if not factor or said.signs[0] not in ORDERED:
        return False
    return wanted.signs[0] == (said.signs[0] if factor > 0 else flipped(said.signs[0]))


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
