"""Whether two answers mean the same."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from apps.rewards.mathematics import shapes, values
from apps.rewards.mathematics.shapes import UNITS, Items, Matrix, Relation, Shape, Union, Value, Words

FINE = Fraction(1, 10**6)  # a decimal written at least as finely as this may stand for what rounds to it
FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "=": "=", "\\ne": "\\ne"}
LETTER = re.compile(r"\(?\s*+([A-Ja-j])\s*+\)?")
CHOSEN = re.compile(r"\(\s*([A-J])\s*\).*|([A-J])\s*[.:)].*|([A-J])", re.DOTALL)


@dataclass(frozen=True)
class Rules:
    """`percent`: 50 % is 0.5; `units`: units may be left out; `tolerance`: relative, between numbers."""

    percent: bool = True
    units: bool = True
    tolerance: float = 0.0


def same_answer(wanted: str, said: str, rules: Rules) -> bool:
    """Under any of the readings of both."""
    if not said.strip() or not wanted.strip():
        return False
    if bare(wanted) == bare(said):
        return True
    letter = LETTER.fullmatch(bare(wanted))
    chosen = CHOSEN.fullmatch(re.sub(r"\\text\w*\{([^{}]*)\}", r"\1", said).strip())
    if letter and chosen and (wanted.strip().isupper() or "(" in wanted):
        return letter[1].upper() == next(filter(None, chosen.groups()))
    meant = shapes.readings(said)
    return any(same(ours, theirs, rules) for ours in shapes.readings(wanted) for theirs in meant)


def bare(text: str) -> str:
    """Without marks of text and spaces."""
    text = re.sub(r"\\(?:text|textbf|mathrm|mathbf|textit|mbox)\s*\{([^{}]*)\}", r"\1", text)
    return " ".join(text.replace("$", "").replace("**", "").split()).strip(" .")


def same(wanted: Shape, said: Shape, rules: Rules) -> bool:
    """Of two shapes; `wanted` says what may be left out."""
    if isinstance(wanted, Value) and isinstance(said, Value):
        return _same_value(wanted, said, rules)
    if isinstance(wanted, Words) or isinstance(said, Words):
        return _same_words(wanted, said)
    if isinstance(wanted, Relation) or isinstance(said, Relation):
        return _same_relation(wanted, said, rules)
    if isinstance(wanted, Matrix) and isinstance(said, Matrix):
        return _same_matrix(wanted, said, rules)
    if isinstance(wanted, Union) or isinstance(said, Union):
        return _same_union(wanted, said, rules)
    if isinstance(wanted, Items) and isinstance(said, Items):
        return _same_items(wanted, said, rules)
    return _alone(wanted, said, rules)


def _alone(wanted: Shape, said: Shape, rules: Rules) -> bool:
    """{5} and 5: one value, in the braces of a set."""
    one, other = (wanted, said) if isinstance(wanted, Items) else (said, wanted)
    return isinstance(one, Items) and one.left == "\\{" and len(one.items) == 1 and same(one.items[0], other, rules)


def _same_words(wanted: Shape, said: Shape) -> bool:
    if not (isinstance(wanted, Words | Value) and isinstance(said, Words | Value)):
        return False
    ours, theirs = (re.sub(r"[\s\"'“”.,!-]+", "", bare(shape.text)).casefold() for shape in (wanted, said))
    return bool(ours) and ours == theirs


def _same_value(wanted: Value, said: Value, rules: Rules) -> bool:
    if not _units_agree(wanted.unit, said.unit, rules):
        return False
    if values.same_value(wanted.node, said.node) or values.same_value(values.of_ten(wanted.node), values.of_ten(said.node)):
        return rules.percent or wanted.is_percent == said.is_percent or _is_zero(said)
    return _same_percent(wanted, said) or _rounds_to(wanted, said) or _within(wanted, said, rules.tolerance)


def _is_zero(value: Value) -> bool:
    return values.same_value(value.node, ("number", Fraction(0), "0"))


def _units_agree(wanted: str, said: str, rules: Rules) -> bool:
    if wanted == said:
        return True
    if not rules.units:
        return False
    known = [_base(unit) in UNITS for unit in (wanted, said)]
    return not all(known)


def _base(unit: str) -> str:
    return unit.partition("^")[0]


def _same_percent(wanted: Value, said: Value) -> bool:
    """50 % where 50 was wanted, and the other way: the sign alone was left out. Below 1 that would be another number."""
    if wanted.is_percent == said.is_percent:
        return False
    percent, plain = (wanted, said) if wanted.is_percent else (said, wanted)
    try:
        told, number = values.exact(percent.node) * 100, values.exact(plain.node)
    except (values.NotExact, values.NoValue):
        return False
    return told == number and abs(number) > 1


def _rounds_to(wanted: Value, said: Value) -> bool:
    """One is a decimal of six places or more, and the other rounds to it: 0.333333 and 1/3."""
    if values.symbols(wanted.node) or values.symbols(said.node):
        return False
    return _is_rounded(said, wanted) or _is_rounded(wanted, said)


def _is_rounded(written: Value, other: Value) -> bool:
    decimal = shapes.number_written(written)
    if decimal is None:
        return False
    number, power = decimal
    last = Fraction(10) ** power
    if last > FINE * max(1, abs(number)) or written.is_percent:
        return False
    return _distance(other, number) <= last / 2 + last / 10**9


def _distance(value: Value, number: Fraction) -> Fraction:
    try:
        return abs(values.exact(value.node) - number)
    except values.NoValue:
        return Fraction(10**9)
    except values.NotExact:
        return _far_or(value, number)


def _far_or(value: Value, number: Fraction) -> Fraction:
    try:
        there = values.numeric(value.node)
        return abs(Fraction(str(there)) - number) if not hasattr(there, "_mpc_") else Fraction(10**9)
    except (values.NoValue, ValueError):
        return Fraction(10**9)


def _within(wanted: Value, said: Value, tolerance: float) -> bool:
    if not tolerance or values.symbols(wanted.node) or values.symbols(said.node):
        return False
    try:
        ours, theirs = values.numeric(wanted.node), values.numeric(said.node)
    except values.NoValue:
        return False
    return bool(abs(ours - theirs) <= tolerance * (1 + 1e-12) * abs(ours))


def _same_items(wanted: Items, said: Items, rules: Rules) -> bool:
    """Sets and bare lists in any order; pairs and intervals in theirs, with their brackets or with none."""
    if {wanted.left, said.left} <= {"", "\\{"}:
        ours, theirs = list(wanted.items), list(said.items)
        if "\\{" in (wanted.left, said.left):
            ours, theirs = _distinct(ours, rules), _distinct(theirs, rules)
        return _matched(ours, theirs, rules)
    if said.left != "" and (wanted.left, wanted.right) != (said.left, said.right):
        return False
    if wanted.left == "":
        return False
    return _all_same(wanted.items, said.items, rules)


def _distinct(items: list[Shape], rules: Rules) -> list[Shape]:
    found: list[Shape] = []
    for item in items:
        if not any(same(other, item, rules) for other in found):
            found.append(item)
    return found


def _matched(ours: list[Shape], theirs: list[Shape], rules: Rules) -> bool:
    """Each of ours with another of theirs."""
    if len(ours) != len(theirs):
        return False
    left = list(theirs)
    for item in ours:
        place = next((place for place, other in enumerate(left) if same(item, other, rules)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def _same_matrix(wanted: Matrix, said: Matrix, rules: Rules) -> bool:
    if [len(row) for row in wanted.rows] != [len(row) for row in said.rows]:
        return False
    ours, theirs = ([cell for row in matrix.rows for cell in row] for matrix in (wanted, said))
    return _all_same(ours, theirs, rules)


def _all_same(ours: Sequence[Shape], theirs: Sequence[Shape], rules: Rules) -> bool:
    """Each the same as the one in its place."""
    return len(ours) == len(theirs) and all(same(a, b, rules) for a, b in zip(ours, theirs, strict=True))


def _same_union(wanted: Shape, said: Shape, rules: Rules) -> bool:
    return _matched(_parts(wanted), _parts(said), rules)


def _parts(shape: Shape) -> list[Shape]:
    """Of a union; a bare list of inequalities says one, too."""
    if isinstance(shape, Union):
        return list(shape.parts)
    if isinstance(shape, Items) and not shape.left and all(isinstance(item, Relation) for item in shape.items):
        return list(shape.items)
    return [shape]


def _same_relation(wanted: Shape, said: Shape, rules: Rules) -> bool:
    if isinstance(wanted, Relation) and isinstance(said, Relation):
        return _same_relations(wanted, said, rules)
    if isinstance(said, Relation):
        if isinstance(wanted, Items) and (interval := as_interval(said)):
            return same(wanted, interval, rules)
        return _says(said, wanted, rules)
    if isinstance(said, Items) and (interval := as_interval(wanted)):
        return same(interval, said, rules)
    return _is_assignment(wanted) and same(wanted.sides[-1], said, rules)


def _says(said: Relation, wanted: Shape, rules: Rules) -> bool:
    """x = 1/2 = 0.5 where a value was wanted: its last side, and all sides that are numbers, too."""
    if set(said.signs) != {"="} or not same(wanted, said.sides[-1], rules):
        return False
    return all(_is_named(side) or same(wanted, side, rules) for side in said.sides[:-1])


def _is_named(side: Shape) -> bool:
    """A name for what is said, not a number of its own."""
    return isinstance(side, Words) or (isinstance(side, Value) and bool(values.symbols(side.node) or "i" in side.text))


def _is_assignment(relation: Shape) -> bool:
    """x = 5, f(x) = 2x: a name on the left."""
    if not isinstance(relation, Relation) or set(relation.signs) != {"="}:
        return False
    left = relation.sides[0]
    name = left.text.strip() if isinstance(left, Value | Words) else ""
    return bool(re.fullmatch(r"\\?[a-zA-Z]+(?:_\{?\w+\}?)?'*(?:\s*\(\s*\\?[a-zA-Z]\w*\s*\))?|\\text\{.*\}", name))


def _same_relations(wanted: Relation, said: Relation, rules: Rules) -> bool:
    if len(wanted.signs) == len(said.signs) == 1:
        return _same_two_sides(wanted, said, rules)
    if _is_assignment(wanted) and set(said.signs) == {"="}:
        return same(wanted.sides[0], said.sides[0], rules) and _says(said, wanted.sides[-1], rules)
    forward, backward = wanted, Relation(wanted.sides[::-1], tuple(FLIPPED[sign] for sign in wanted.signs[::-1]))
    return any(each.signs == said.signs and _all_same(each.sides, said.sides, rules) for each in (forward, backward))


def _same_two_sides(wanted: Relation, said: Relation, rules: Rules) -> bool:
    """The differences of the sides are multiples of each other; a negative one turns the sign around."""
    if wanted.signs == said.signs and _all_same(wanted.sides, said.sides, rules):
        return True
    if not all(isinstance(side, Value) for side in (*wanted.sides, *said.sides)):
        return False
    ours, theirs = (("+", each.sides[0].node, ("-", each.sides[1].node)) for each in (wanted, said))
    factor = _factor(ours, theirs)
    if not factor:
        return False
    return wanted.signs[0] == (said.signs[0] if factor > 0 else FLIPPED[said.signs[0]])


def _factor(ours: tuple, theirs: tuple) -> float:
    """How many times the one is the other, everywhere; 0 where it is not."""
    names = sorted(values.symbols(ours) | values.symbols(theirs))
    if not names or values.symbols(ours) != values.symbols(theirs):
        return 0.0
    first = values.points(names)[0]
    try:
        top, bottom = values.exact(ours, first), values.exact(theirs, first)
    except (values.NotExact, values.NoValue):
        return _plain_factor(ours, theirs)
    if not top or not bottom:
        return 0.0
    factor = top / bottom
    scaled = ("*", ("number", factor, str(factor)), theirs)
    return float(factor) if values.same_value(ours, scaled) else 0.0


def _plain_factor(ours: tuple, theirs: tuple) -> float:
    """Where the values are no fractions, only sides that changed places are known."""
    if values.same_value(ours, theirs):
        return 1.0
    return -1.0 if values.same_value(ours, ("-", theirs)) else 0.0


def as_interval(relation: Shape) -> Items | None:
    """x > 2, 1 < x ≤ 3: the interval of its one symbol; None for what says none."""
    if not isinstance(relation, Relation) or not set(relation.signs) <= {"<", ">", "\\le", "\\ge"}:
        return None
    sides, signs = relation.sides, relation.signs
    if signs[0] in (">", "\\ge"):
        sides, signs = sides[::-1], tuple(FLIPPED[sign] for sign in signs[::-1])
    if not set(signs) <= {"<", "\\le"}:
        return None
    infinite = Value(("constant", "infinity"), "\\infty"), Value(("-", ("constant", "infinity")), "-\\infty")
    match sides:
        case (low, name, high) if _is_symbol(name):
            return Items("[" if signs[0] == "\\le" else "(", (low, high), "]" if signs[1] == "\\le" else ")")
        case (low, name) if _is_symbol(name):
            return Items("[" if signs[0] == "\\le" else "(", (low, infinite[0]), ")")
        case (name, high) if _is_symbol(name):
            return Items("(", (infinite[1], high), "]" if signs[0] == "\\le" else ")")
    return None


def _is_symbol(side: Shape) -> bool:
    return isinstance(side, Value) and side.node[0] == "symbol"
