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
    proportions,
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
DECIMAL = 10
# What stands in the place of a unit and adds another value, or takes the value back.
_NO_UNIT = re.compile(
    r"\b(?:or|nor|not|no|if|but|wrong|false|incorrect|maybe|perhaps|versus|vs|oder|ou)\b|\?"
    r"|(?<![\^{a-zA-Z-])\d",
    re.I,
)
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

    `percent`: 50 % is 0.5; `units`: units may be left out; `tolerance`: relative; `ratios`:
    a ratio is asked for, so that 3:45 is no time of day, and 12:1 is 12.
    """

    percent: bool = True
    units: bool = True
    tolerance: float = 0.0
    ratios: bool = False


def flipped(sign: str) -> str:
    """Return the sign with its sides in the other order."""
    return _FLIPPED.get(sign, sign)


def same_answer(expected: str, answer: str, rules: Rules) -> bool:
    """Tell whether any reading of the answer equals any reading of the expected text."""
    if not answer.strip() or not expected.strip():
        return False
    expected_text = bare(expected)
    answer_text = bare(answer)
    if several := _list_letters(expected_text):
        return several == (_list_letters(answer_text) or _list_joined_letters(answer_text))
    letter = LETTER.fullmatch(expected_text)
    if letter and (expected_text.strip("() ").isupper() or "(" in expected_text):
        picked = _IN_SQUARES.sub(r"\1", _CHOICE.sub("", answer_text))
        picked = picked.upper() if re.fullmatch(r"\(\s?[a-j]\s?\)", picked) else picked
        return letter[1].upper() == find_chosen_letter(picked)
    if expected_text == answer_text:
        return True
    if _is_word(expected_text) and _is_word(answer_text):
        return expected_text.casefold() == answer_text.casefold()
    if labelled := re.match(r"\(([A-J])\)\s*(?=\S)", expected_text):  # "(B) 12" is B, and 12
        if find_chosen_letter(answer_text) is not None:
            return find_chosen_letter(answer_text) == labelled[1]
        return same_answer(expected_text[labelled.end() :], answer, rules)
    return any(
        _same_meaning(expected_spelling, answer_spelling, rules)
        for expected_spelling, answer_spelling in _spellings(expected, answer)
    )


def _same_meaning(expected: str, answer: str, rules: Rules) -> bool:
    """Tell whether any meanings are the same, but for lists that both may be: 32,348 cents."""
    expected_meanings = read_all_meanings(expected)
    answer_meanings = read_all_meanings(answer)
    are_values = isinstance(expected_meanings[0], Value) and isinstance(answer_meanings[0], Value)
    return any(
        same(expected_shape, answer_shape, rules)
        for expected_shape in expected_meanings
        for answer_shape in answer_meanings
        if not (are_values and isinstance(expected_shape, Items))
    )


def _list_letters(text: str) -> frozenset[str]:
    """Return the letters of a list of choices, as "A, C"; empty for anything else."""
    letters = re.findall(r"[A-J]", text) if _LETTERS.fullmatch(text) else []
    return frozenset(letters) if len(set(letters)) == len(letters) else frozenset()


def _list_joined_letters(text: str) -> frozenset[str]:
    """Return the letters of choices that stand side by side, as "AC"."""
    return frozenset(text) if re.fullmatch(r"[A-J]{2,10}", text) else frozenset()


def _spellings(expected: str, answer: str) -> Iterator[tuple[str, str]]:
    """Yield both texts as they are, and with usual letters for what has no name of its own.

    These are the constant of integration, and the whole number that numbers the solutions.
    """
    yield expected, answer
    expected_usual = naming.with_usual_letters(expected)
    answer_usual = naming.with_usual_letters(answer)
    if expected_usual and answer_usual:
        yield expected_usual, answer_usual


def _is_word(text: str) -> bool:
    """Tell short words (no, odd, tie) from products of letters (ab, mn)."""
    return bool(re.fullmatch(r"[a-zA-Z]{2,3}", text)) and bool(re.search(r"[eiou]", text))


@lru_cache(maxsize=256)
def read_all_meanings(text: str) -> tuple[Shape, ...]:
    return tuple(shapes.list_meanings(text))


def find_chosen_letter(text: str) -> str | None:
    """Return the one letter that is picked; None for none and for several."""
    first = CHOSEN.match(text)
    letters = {letter for groups in LABELS.findall(text) for letter in groups if letter}
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
    return all(isinstance(shape, Unread) for shape in read_all_meanings(text))


def same(expected: Shape, answer: Shape, rules: Rules) -> bool:
    """Compare two shapes; `expected` says what may be left out."""
    match expected, answer:
        case Value(), Value():
            return _same_value(expected, answer, rules)
        case Unread(), Unread():
            return _tight(expected.text) == _tight(answer.text)
        case (Words(), _) | (_, Words()):
            return _same_words(expected, answer, rules)
        case NamedSet(), NamedSet():
            return expected.name == answer.name
        case Items(), Items() if _same_items(expected, answer, rules):
            return True
        case Matrix(), Matrix():
            return _same_matrix(expected, answer, rules)
        case (Matrix(), Items()) | (Items(), Matrix()):
            return _same_vector(expected, answer, rules)
        case (Ratio(), _) | (_, Ratio()):
            return _same_ratio(expected, answer, rules)
    has_relation = isinstance(expected, Relation) or isinstance(answer, Relation)
    if has_relation and _same_relation(expected, answer, rules):
        return True
    if _same_single_item(expected, answer, rules):
        return True
    return setreading.same_set(expected, answer)


def _same_single_item(expected: Shape, answer: Shape, rules: Rules) -> bool:
    """Tell whether one is a set of a single value and the other is that value: {5} and 5."""
    items, value = (expected, answer) if isinstance(expected, Items) else (answer, expected)
    if not isinstance(items, Items) or isinstance(value, Items | NamedSet) or items.left != "\\{":
        return False
    return len(items.items) == 1 and same(items.items[0], value, rules)


def _tight(text: str) -> str:
    return re.sub(r"\s+|\\(?=\s)", "", text)


def _same_words(expected: Shape, answer: Shape, rules: Rules) -> bool:
    """Compare as text; a name before "=" may be left out."""
    if isinstance(expected, Ratio) or isinstance(answer, Ratio):
        return proportions.is_same_ratio(expected, answer, are_asked=rules.ratios)
    if isinstance(expected, Relation) and naming.is_assignment(expected):
        return same(expected.sides[-1], answer, rules)
    if isinstance(answer, Relation) and naming.is_assignment(answer):
        return same(expected, answer.sides[-1], rules)
    if isinstance(expected, NamedSet) or isinstance(answer, NamedSet):
        return False
    if not (isinstance(expected, Words | Value) and isinstance(answer, Words | Value)):
        return False
    expected_words = _words(expected.text)
    answer_words = _words(answer.text)
    return bool(expected_words) and expected_words == answer_words


def _words(text: str) -> str:
    plain = re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)
    words = " ".join(re.sub(r"[\"'“”]", "", plain).casefold().split()).strip(" .!,")
    return _SYNONYMS.get(words, words)


def _same_value(expected: Value, answer: Value, rules: Rules) -> bool:
    factor = _unit_factor(expected, answer, rules)
    if factor is None:
        in_degrees = _in_degrees(expected, answer)
        if in_degrees is None:
            return False
        answer = in_degrees
        factor = Fraction(1)
    if factor != 1:
        answer = Value(("*", ("number", factor, ""), answer.node), answer.text, expected.unit)
    based = [value.node for value in (expected, answer) if value.node[0] == "based"]
    if based:
        return _same_in_base(expected.node, answer.node)
    is_same = values.has_same_value(expected.node, answer.node) or values.has_same_value(
        values.of_ten(expected.node), values.of_ten(answer.node)
    )
    if is_same:
        return rules.percent or expected.is_percent == answer.is_percent or _is_zero(answer)
    if _same_percent(expected, answer):
        return True
    if factor == 1 and decimals.rounds_to(expected, answer):
        return True
    return decimals.within(expected, answer, rules.tolerance)


def _same_in_base(expected: tuple, answer: tuple) -> bool:
    """Tell whether both are the same digits in the same base, which may be left out."""
    if expected[0] == answer[0] == "based":
        return expected[3] == answer[3] and expected[2].lstrip("0") == answer[2].lstrip("0")
    based, plain = (expected, answer) if expected[0] == "based" else (answer, expected)
    if based is answer and based[3] > DECIMAL:  # 0x61 is not 61
        return False
    return plain[0] == "number" and plain[2].lstrip("0") == based[2].lstrip("0")


def _is_zero(value: Value) -> bool:
    return values.has_same_value(value.node, ("number", Fraction(0), "0"))


def _unit_factor(expected: Value, answer: Value, rules: Rules) -> Fraction | None:
    """Return the answer's unit divided by the expected one; None for another quantity."""
    if expected.unit == answer.unit:
        return Fraction(1)
    if expected.is_percent or answer.is_percent:
        return None
    if not expected.unit and expected.node[0] != "based" and _NO_UNIT.search(answer.unit):
        return None
    if expected.unit and answer.unit:
        return units.unit_ratio(expected.unit, answer.unit)
    if not rules.units or any(units.is_joined_product(value.unit) for value in (expected, answer)):
        return None
    return _radians(expected, answer) or Fraction(1)


def _in_degrees(expected: Value, answer: Value) -> Value | None:
    """Return a temperature on the expected scale; None for other quantities."""
    scale = units.scale(expected.unit, answer.unit)
    if scale is None:
        return None
    factor, offset = scale
    scaled = ("*", ("number", factor, str(factor)), answer.node)
    return Value(("+", scaled, ("number", offset, str(offset))), answer.text, expected.unit)


def _radians(expected: Value, answer: Value) -> Fraction | None:
    """Take a bare multiple of π for radians, if the other value is in degrees."""
    expected_has_pi, answer_has_pi = (naming.has_pi(value.node) for value in (expected, answer))
    if answer.unit and units.unit_ratio("rad", answer.unit) and expected_has_pi:
        return units.unit_ratio("rad", answer.unit)
    if expected.unit and units.unit_ratio(expected.unit, "rad") and answer_has_pi:
        return units.unit_ratio(expected.unit, "rad")
    return None


def _same_percent(expected: Value, answer: Value) -> bool:
    """Tell whether only the percent sign was left out: 50 % and 50.

    Below 1 that would be another number.
    """
    if expected.is_percent == answer.is_percent:
        return False
    percent, plain = (expected, answer) if expected.is_percent else (answer, expected)
    try:
        hundredfold = values.exact(percent.node) * 100
        number = values.exact(plain.node)
    except (values.NotExact, values.NoValue):
        return False
    return hundredfold == number and abs(number) > 1


def _same_items(expected: Items, answer: Items, rules: Rules) -> bool:
    """Tell whether both have the same items: sets and bare lists in any order, others in order.

    A pair may lack its brackets. Named values are compared in the order of their names.
    """
    if {expected.link, answer.link} == {"and", "or"} and (
        all(map(shapes.is_symbol, expected.items)) or any(map(setreading.is_bound, expected.items))
    ):
        return False  # p and q, p or q; x < 1 and x > 2, x < 1 or x > 2
    if setreading.has_bounds_to_meet(answer) and setreading.is_empty(answer):
        return False
    if (expected.link == "or") != (answer.link == "or") and _have_different_names(answer.items):
        return False  # x = 2 or y = 3
    if {expected.left, answer.left} <= {"", "\\{"}:
        expected_items = list(expected.items)
        answer_items = list(answer.items)
        has_relation = any(isinstance(item, Relation) for item in answer_items)
        if _named_apart(expected_items) and not has_relation:
            return _all_same(expected_items, answer_items, rules)
        if "\\{" in (expected.left, answer.left):
            expected_items = _distinct(expected_items, rules)
            answer_items = _distinct(answer_items, rules)
        return _matched(expected_items, answer_items, rules)
    if expected.left == "" and _named_apart(expected.items) and answer.left == "(":
        return _all_same(_in_order(expected.items), answer.items, rules)
    if expected.left == "(" and answer.left == "" and _named_apart(answer.items):
        return _all_same(expected.items, _in_order(answer.items), rules)
    brackets = {expected.left + expected.right, answer.left + answer.right}
    if brackets in ({"()", "[]"}, {"()", "\\langle\\rangle"}) and len(expected.items) > 2:
        return _all_same(expected.items, answer.items, rules)  # vectors: no interval has three ends
    if answer.left != "" and (expected.left, expected.right) != (answer.left, answer.right):
        return False
    if expected.left == "" or (answer.left == "" and expected.left + expected.right != "()"):
        return False
    return _all_same(expected.items, answer.items, rules)


def _in_order(items: Sequence[Shape]) -> list[Shape]:
    """Return the values of x, y and z in that order: y = 2, x = 1 is the point (1, 2)."""
    firsts = [item.sides[0] for item in items if isinstance(item, Relation)]
    names = [name.text for name in firsts if isinstance(name, Value) and shapes.is_symbol(name)]
    if len(names) < len(items) or not set(names) <= naming.UNKNOWNS:
        return list(items)
    return [items[place] for place in sorted(range(len(items)), key=names.__getitem__)]


def _have_different_names(items: Sequence[Shape]) -> bool:
    """Tell values of x and y from several values of x, which may be written x_1 and x_2."""
    if not _named_apart(items):
        return False
    names = [
        str(getattr(item.sides[0], "text", "")) for item in items if isinstance(item, Relation)
    ]
    return len({re.sub(r"_\{?\d\}?$", "", name) for name in names}) > 1


def _named_apart(items: Sequence[Shape]) -> bool:
    """Tell whether each is a value with a name of its own."""
    if not all(naming.is_assignment(item) for item in items):
        return False
    firsts = [item.sides[0] for item in items if isinstance(item, Relation)]
    names = [name.text for name in firsts if isinstance(name, Value | Words)]
    return len(set(names)) == len(items)


def _distinct(items: list[Shape], rules: Rules) -> list[Shape]:
    distinct: list[Shape] = []
    for item in items:
        if not any(same(earlier, item, rules) for earlier in distinct):
            distinct.append(item)
    return distinct


def _matched(expected: list[Shape], answers: list[Shape], rules: Rules) -> bool:
    """Tell whether each expected item pairs with a different item of the answer."""
    if len(expected) < len(answers) and len(_distinct(expected, rules)) == len(expected):
        answers = _distinct(answers, rules)
    if len(expected) != len(answers):
        return False
    unmatched = list(answers)
    for item in expected:
        place = next(
            (at for at, candidate in enumerate(unmatched) if same(item, candidate, rules)), None
        )
        if place is None:
            return False
        unmatched.pop(place)
    return True


def _same_matrix(expected: Matrix, answer: Matrix, rules: Rules) -> bool:
    if expected.is_determinant != answer.is_determinant:
        return False
    if [len(row) for row in expected.rows] != [len(row) for row in answer.rows]:
        return False
    expected_cells, answer_cells = (
        [cell for row in matrix.rows for cell in row] for matrix in (expected, answer)
    )
    return _all_same(expected_cells, answer_cells, rules)


def _same_vector(expected: Shape, answer: Shape, rules: Rules) -> bool:
    """Tell whether a matrix of one row or one column and a tuple have the same numbers."""
    matrix, items = (expected, answer) if isinstance(expected, Matrix) else (answer, expected)
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


def _same_ratio(expected: Shape, answer: Shape, rules: Rules) -> bool:
    if isinstance(expected, Relation) or isinstance(answer, Relation):
        return _same_relation(expected, answer, rules)
    return proportions.is_same_ratio(expected, answer, are_asked=rules.ratios)


def _all_same(expected: Sequence[Shape], answer: Sequence[Shape], rules: Rules) -> bool:
    """Tell whether each item is the same as the one in its place."""
    return len(expected) == len(answer) and all(
        same(a, b, rules) for a, b in zip(expected, answer, strict=True)
    )


def _same_relation(expected: Shape, answer: Shape, rules: Rules) -> bool:
    if isinstance(expected, Relation) and isinstance(answer, Relation):
        return _same_relations(expected, answer, rules)
    if isinstance(answer, Relation) and answer.modulus is not None:
        return _is_least_residue(answer) and same(expected, answer.sides[-1], rules)
    if isinstance(answer, Relation):
        return _chain_has_value(answer, expected, rules)
    return isinstance(expected, Relation) and any(
        same(value, answer, rules) for value in naming.list_candidate_values(expected)
    )


def _chain_has_value(answer: Relation, expected: Shape, rules: Rules) -> bool:
    """Tell whether a chain such as x = 1/2 ≈ 0.5 gives the expected value: all its sides agree."""
    sides = list(answer.sides)
    signs = list(answer.signs)
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


def _same_relations(expected: Relation, answer: Relation, rules: Rules) -> bool:
    if expected.modulus is not None or answer.modulus is not None:
        return _same_residues(expected, answer, rules)
    is_solution = naming.is_assignment(expected) and naming.is_solved(expected)
    if is_solution and set(answer.signs) <= {"=", "\\approx"}:
        return _same_solution(expected, answer, rules)
    if expected.signs == answer.signs == ("=",) and naming.is_same_name(
        expected.sides[0], answer.sides[0]
    ):
        return same(expected.sides[1], answer.sides[1], rules)
    if len(expected.signs) == len(answer.signs) == 1:
        return _same_two_sides(expected, answer, rules)
    backward = Relation(expected.sides[::-1], tuple(flipped(sign) for sign in expected.signs[::-1]))
    return any(
        relation.signs == answer.signs and _all_same(relation.sides, answer.sides, rules)
        for relation in (expected, backward)
    )


def _same_solution(expected: Relation, answer: Relation, rules: Rules) -> bool:
    """Tell whether both give the same name and value, as x = 6; 3x = 18 is not solved."""
    first = answer.sides[0]
    last = answer.sides[-1]
    if same(expected.sides[0], first, rules) or naming.is_same_name(expected.sides[0], first):
        return _chain_has_value(answer, expected.sides[-1], rules)
    turned = len(answer.sides) == 2 and same(expected.sides[0], last, rules)
    return turned and same(expected.sides[-1], first, rules)


def _same_residues(expected: Relation, answer: Relation, rules: Rules) -> bool:
    """Tell whether two congruences have one modulus, and sides that differ by its multiples."""
    if expected.modulus is None or answer.modulus is None:
        return False
    modulus = expected.modulus
    expected_sides = expected.sides
    if [len(expected_sides), len(answer.sides)] == [2, 1] and naming.is_name(expected_sides[0]):
        expected_sides = expected_sides[1:]
    if len(expected_sides) != len(answer.sides):
        return False
    if not values.has_same_value(modulus, answer.modulus):
        return False
    pairs = zip(expected_sides, answer.sides, strict=True)
    return all(same(a, b, rules) or _congruent(a, b, modulus) for a, b in pairs)


def _is_least_residue(relation: Relation) -> bool:
    """Tell 5 (mod 7) from 61 (mod 7), which is still to be worked out."""
    residue = relation.sides[-1]
    if not isinstance(residue, Value) or relation.modulus is None:
        return False
    try:
        return 0 <= values.exact(residue.node) < values.exact(relation.modulus)
    except (values.NotExact, values.NoValue):
        return True


def _congruent(first: Shape, second: Shape, modulus: tuple) -> bool:
    if not (isinstance(first, Value) and isinstance(second, Value)):
        return False
    try:
        distance = values.exact(first.node) - values.exact(second.node)
        return (distance / values.exact(modulus)).denominator == 1
    except (values.NotExact, values.NoValue, ZeroDivisionError):
        return False


def _same_two_sides(expected: Relation, answer: Relation, rules: Rules) -> bool:
    """Compare equations up to a factor; a solved inequality is only the same when solved."""
    backward = Relation(answer.sides[::-1], tuple(flipped(sign) for sign in answer.signs[::-1]))
    for relation in (answer, backward):
        if expected.signs == relation.signs and _all_same(expected.sides, relation.sides, rules):
            return True
    if naming.is_solved(expected):
        return False
    nodes = [
        [side.node for side in relation.sides if isinstance(side, Value)]
        for relation in (expected, answer)
    ]
    if [len(pair) for pair in nodes] != [len(expected.sides), len(answer.sides)]:
        return False
    expected_difference, answer_difference = (("+", pair[0], ("-", pair[1])) for pair in nodes)
    factor = proportions.constant_factor(expected_difference, answer_difference)
    if not factor or answer.signs[0] not in ORDERED:
        return False
    return expected.signs[0] == (answer.signs[0] if factor > 0 else flipped(answer.signs[0]))
