"""Decide what counts as an answer: a value where a number is asked for, and not the task again."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from apps.rewards.mathematics import naming, shapes, units, values
from apps.rewards.mathematics.formulas import Node
from apps.rewards.mathematics.same import flipped, read_all_meanings
from apps.rewards.mathematics.shapes import Items, Matrix, Ratio, Relation, Shape, Value

MAX_PROMPT_LENGTH = 8_000  # characters of a task's words that are looked at
MAX_FORMULAS = 200  # of a prompt
MAX_FORMULA_LENGTH = 300
# Functions whose value is still to be worked out, by family; roots and powers are in none.
_FAMILIES = {
    **dict.fromkeys(("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan"), "angles"),
    **dict.fromkeys(("sinh", "cosh", "tanh"), "hyperbolic"),
    **dict.fromkeys(("log", "ln", "log10"), "logarithms"),
    **dict.fromkeys(("factorial", "binomial"), "counting"),
    **dict.fromkeys(("gcd", "lcm"), "divisors"),
    **dict.fromkeys(("floor", "ceil"), "rounding"),
    **dict.fromkeys(("min", "max"), "extremes"),
    "abs": "absolute values",
}
_CONVERSION = re.compile(
    r"\b(?:convert|express|rewrite|write|simplify|reduce|round)\b|\bas an? (?:\w+ )?(?:fraction"
    r"|decimal|percent|mixed number)|\b(?:lowest terms|simplest form|decimal form)",
    re.I,
)
_ASKS_LOWEST_TERMS = re.compile(
    r"\b(?:simplif\w*|lowest\sterms|simplest\s(?:\w+\s)?form|reduced?|irreducible"
    r"|relatively\sprime|coprime|gekürzt\w*|kürze\w*|teilerfremd\w*|irréductible|simplifi\w*"
    r"|simplific\w*|irreducible|несократим\w*|сократи\w*|упрости\w*)(?![^\W_])"
    r"|最简|約分|约分|既約|化简",
    re.I,
)
_ASKS_RATIO = re.compile(
    r"\b(?:ratios?|odds|proportions?|scale|verhältnis\w*|maßstab|rapport|échelle|razón"
    r"|proporción|escala|отношени\w*|соотношени\w*|масштаб)(?![^\W_])|比(?!赛|較|较|萨|利)",
    re.I,
)
_ASKS_UNIT = re.compile(r"\bhow (?:many|much|long|far)\b|\bin (?:\w+)\?|\bconvert|\bexpress", re.I)
_ASKS_PERCENT = re.compile(
    r"(?:what|which|as an?|the|in|find|percentage|nearest|how many)\s(?:\w+\s){0,2}per ?cent"
    r"|percentage|(?:in|as a) %|by how many percent|prozent|pour ?cent|por ?ciento|porcentaje"
    r"|百分|パーセント|何%|何％|процент",
    re.I,
)
_ASKS_CHANCE = re.compile(
    r"\b(?:probability|chances?|likelihood|wahrscheinlichkeit|probabilité|probabilidad)\b|概率|確率"
    r"|вероятност",
    re.I,
)
_IN_UNIT = re.compile(
    r"\bin\s(?:\$|\\text\{|\()?([a-z]{1,14}(?:(?:\s?/\s?|\sper\s)[a-z]{1,12})?(?:\^?[23²³])?)"
    r"(?![^\W_])",
    re.I,
)
_ASKS_TO_EXPAND = re.compile(
    r"\b(?:expand|multiply out|multipliziere|ausmultipli|développe|desarrolla)|展开|раскро", re.I
)
_ASKS_TO_FACTOR = re.compile(
    r"\b(?:factor(?:i[sz]e)?\b|faktorisier|factorisez|factoriza)|因式分解|分解因式|разлож", re.I
)
_CURRENCIES = {
    # A dollar sign beside a number, and not around a formula.
    "dollar": re.compile(
        r"\\\$|\$\s?\d[\d,.]{0,20}(?=[\s,.;?!)]|$)|\d\s?\$(?=\s|$)|\bdollars?\b|\bdólares\b|\busd\b"
        r"|美元|ドル|доллар",
        re.I,
    ),
    "euro": re.compile(r"€|\beuros?\b|\beur\b|欧元|ユーロ|евро", re.I),
    "pound": re.compile(r"£|\bgbp\b|英镑|ポンド", re.I),  # the word may be a weight
    "cent": re.compile(r"¢|\bcents?\b|\bcentavos\b|美分|セント|цент", re.I),
    "yen": re.compile(r"¥|\byen\b|\bjpy\b|日元|円|иен", re.I),
    "rupee": re.compile(r"₹|\brupees?\b|\binr\b|卢比|рупи", re.I),
}
# Which measure of angles a task asks for, and which one an answer is in.
_ASKS_RADIANS = re.compile(
    r"\b(?:in|to|into|as|using|use)\s(?:\w{1,12}\s){0,2}radians?\b|\bradian measure|bogenmaß"
    r"|\b(?:in|en|em)\s(?:radiant|radians|radianes|radianos)\b|в радианах|弧度(?!(?:化|转|換|换))"
    r"|ラジアンで",
    re.I,
)
_ASKS_DEGREES = re.compile(
    r"(?<!not )\b(?:in|to|into|as)\s(?:\w{1,12}\s){0,2}degrees\b|\bdegree measure"
    r"|\b(?:in grad|en degrés|en grados|em graus)\b|в градусах|化为度|用度|角度制|度数",
    re.I,
)
_IN_DEGREES = re.compile(
    r"°|\\circ|\\degree|\bdeg(?:rees?)?\b|(?<=\d)\s?(?:grad|grados|degrés|градус\w*|度)", re.I
)
_SAYS_RADIANS = re.compile(r"\brad(?:ians?)?\b", re.I)
_IN_RADIANS = re.compile(r"π|\\pi|\bpi\b|\d\s?pi\b|\brad(?:ians?)?\b", re.I)
_REPEATS = re.compile(r"\\overline|\\bar|\\dot|\u0305|\.\d{0,9}\(\d{1,9}\)|\.\d{1,20}(?:…|\.{3})")
_FRACTION = re.compile(r"/|\\[dt]?frac")
_SPAN = re.compile(
    r"\$\$([^$]{1,400})\$\$|\$([^$\n]{1,300})\$|\\\((.{1,300}?)\\\)|\\\[(.{1,400}?)\\\]"
)
_TOKEN = re.compile(r"\S+")
_WORDS = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}")
_FUNCTIONS = frozenset(("sin", "cos", "tan", "log", "ln", "sqrt", "pi", "exp", "abs", "gcd", "lcm"))


def join_prompt_text(prompt: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a chat's messages, without images."""
    texts = []
    for message in prompt:
        content = message.get("content") if isinstance(message, Mapping) else None
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            text = part.get("text") if isinstance(part, Mapping) else part
            texts += [text] if isinstance(text, str) else []
    return "\n".join(texts)[-MAX_PROMPT_LENGTH:]


def asks_ratio(prompt: str) -> bool:
    """Tell whether a ratio is asked for, which 3:45 may be as well as a time of day."""
    return _ASKS_RATIO.search(prompt) is not None


def why_no_answer(expected: str, answer: str, prompt: str) -> str:
    """Return why a text with the right value is not an answer; "" if it is one."""
    expected_shape, *other_shapes = read_all_meanings(expected)
    answer_shapes = read_all_meanings(answer)
    if other_shapes and _has_joined_unit(expected_shape) and not _has_joined_unit(answer_shapes[0]):
        expected_shape = other_shapes[0]  # 2 AC^{-1} as a formula, where the answer is one
    binomials = [shape for shape in answer_shapes[1:] if _is_binomial(shape)]  # C(10, 3), 10C3
    if any(_is_open(expected_shape, shape) for shape in (answer_shapes[0], *binomials)):
        return "a calculation, not its result"
    is_percentage = _is_percentage(answer_shapes[0]) and not _is_percentage(expected_shape)
    if not prompt:
        is_another = is_percentage and _only_sign_left_out(expected_shape, answer_shapes[0])
        return "a percentage instead of a number" if is_another else ""
    is_fraction = _REPEATS.search(expected) and _FRACTION.search(answer)
    # A reference 0.1666… does not write 1/6 itself.
    expected_shapes = () if is_fraction else read_all_meanings(expected)
    if _restates(expected_shapes, answer_shapes, prompt):
        return "a copy of the task, not its answer"
    if is_percentage and not (_ASKS_PERCENT.search(prompt) or _ASKS_CHANCE.search(prompt)):
        return "a percentage instead of a number"
    if _is_in_another_form(expected_shape, answer_shapes[0], prompt) or (
        _ASKS_LOWEST_TERMS.search(prompt) and _is_unreduced(expected_shape, answer_shapes[0])
    ):
        return "not in the form that the task asks for"
    if _is_in_another_measure(expected, answer, prompt):
        return "not in the measure of angles that the task asks for"
    if _is_in_another_unit(expected_shape, answer_shapes[0], prompt):
        return "in another unit than the task asks for"
    is_odds = isinstance(answer_shapes[0], Ratio) and not isinstance(expected_shape, Ratio)
    if is_odds and _ASKS_CHANCE.search(prompt):
        return "odds instead of a probability"
    task_currencies = _currencies(prompt)
    answer_currencies = _currencies(answer)
    if (
        task_currencies
        and answer_currencies
        and not _currencies(expected)
        and not answer_currencies & task_currencies
    ):
        return "in another currency than the task"
    return ""


def result_of_task(answer: str, prompt: str) -> str:
    """Return the right side of an equation whose left side is a formula of the prompt; else "".

    (x+1)^2 = x^2+2x+1 answers the task to expand (x+1)^2.
    """
    left, sign, right = answer.partition("=")
    if not prompt or not sign or "=" in right or not left.strip() or not right.strip():
        return ""
    task = read_prompt_formulas(prompt)
    forms = {canonical_form(shape) for shape in read_all_meanings(left)} - {None}
    is_formula = any(
        isinstance(shape, Value) and shape.node[0] not in ("symbol", "constant", "number")
        for shape in read_all_meanings(left)
    )
    return right.strip() if is_formula and forms & task else ""


def _is_in_another_measure(expected: str, answer: str, prompt: str) -> bool:
    """Tell whether the answer is in degrees and the task asks for radians, or vice versa."""
    asked_measures = bool(_ASKS_RADIANS.search(prompt)), bool(_ASKS_DEGREES.search(prompt))
    if asked_measures == (True, False):
        return bool(_IN_DEGREES.search(answer)) and not _IN_DEGREES.search(expected)
    has_radians = _SAYS_RADIANS.search(answer) and not _IN_RADIANS.search(f"{expected} {prompt}")
    if has_radians and _IN_DEGREES.search(prompt):
        return True
    if asked_measures == (False, True):
        return bool(_IN_RADIANS.search(answer)) and not _IN_RADIANS.search(expected)
    return False


def _is_in_another_unit(expected: Shape, answer: Shape, prompt: str) -> bool:
    """Tell whether the answer is in feet, say, where the task asks for meters.

    False if the expected answer names a unit.
    """
    if not isinstance(expected, Value) or not isinstance(answer, Value):
        return False
    if expected.unit or not answer.unit or not units.is_known_unit(answer.unit):
        return False
    asked_units = {match[1] for match in _IN_UNIT.finditer(prompt) if units.is_known_unit(match[1])}
    ratios = {units.unit_ratio(unit, answer.unit) for unit in asked_units} - {None}
    return bool(ratios) and 1 not in ratios


def _is_unreduced(expected: Shape, answer: Shape) -> bool:
    """Tell whether the answer is a fraction that can be reduced, and the reference is none."""
    is_reducible = [
        isinstance(side, Value) and _is_reducible(side.node) for side in (expected, answer)
    ]
    return is_reducible == [False, True]


def _is_in_another_form(expected: Shape, answer: Shape, prompt: str) -> bool:
    """Tell whether the answer is a product and the task asks for a sum, or vice versa."""
    if not isinstance(expected, Value) or not isinstance(answer, Value):
        return False
    if _ASKS_TO_EXPAND.search(prompt):
        return not _has_product_of_sums(expected.node) and _has_product_of_sums(answer.node)
    if _ASKS_TO_FACTOR.search(prompt):
        return _has_product_of_sums(expected.node) and answer.node[0] == "+"
    return False


def _has_product_of_sums(node: Node) -> bool:
    """Tell whether a sum stands in a product or under a power, as in x(x + 2) + 1."""
    inside = [part for part in node[1:] if isinstance(part, tuple)]
    if node[0] in ("*", "^") and any(part[0] == "+" for part in inside):
        return True
    return any(_has_product_of_sums(part) for part in inside)


def _currencies(text: str) -> frozenset[str]:
    return frozenset(name for name, form in _CURRENCIES.items() if form.search(text))


def _is_binomial(shape: Shape) -> bool:
    return isinstance(shape, Value) and shape.node[0] == "binomial"


def _has_joined_unit(shape: Shape) -> bool:
    return isinstance(shape, Value) and units.is_joined_product(shape.unit)


def _is_open(expected: Shape, answer: Shape) -> bool:
    """Tell whether the answer leaves a calculation to be done, and the reference does not."""
    if isinstance(expected, Relation) and not naming.is_solved(expected):
        return False
    expected_values = list(_values(expected))
    answer_values = list(_values(answer))
    if len(expected_values) == len(answer_values):
        pairs = zip(expected_values, answer_values, strict=True)
        answer_values = [
            value for expected_value, value in pairs if not _is_rounding(expected_value, value)
        ]
    if any(not naming.is_closed(value) for value in expected_values):
        return False
    is_complex = any(_is_complex_number(value.node) for value in expected_values)
    if is_complex and any(_counts_terms(value.node) > 2 for value in answer_values):
        return True
    if expected_values and all(is_plain(value.node) for value in expected_values):
        if any(not is_plain(value.node) or "\\div" in value.text for value in answer_values):
            return True
        has_division = any(_is_division_to_do(value.node) for value in expected_values)
        has_division = has_division or isinstance(answer, Matrix)
        return not has_division and any(_is_division_to_do(value.node) for value in answer_values)
    allowed_families = frozenset().union(*(_families(value.node) for value in expected_values))
    return any(not _families(value.node) <= allowed_families for value in answer_values)


def _is_complex_number(node: Node) -> bool:
    """Tell whether it is written a + bi: what else is equal to it has terms to be collected."""
    return _has_i(node) and _counts_terms(node) <= 2


def _has_i(node: Node) -> bool:
    return node == ("constant", "i") or any(
        _has_i(part) for part in node[1:] if isinstance(part, tuple)
    )


def _counts_terms(node: Node) -> int:
    if node[0] == "-":
        return _counts_terms(node[1])
    return sum(map(_counts_terms, node[1:])) if node[0] == "+" else 1


def _is_rounding(expected: Value, answer: Value) -> bool:
    """Tell whether the reference is a decimal, or in degrees, where the answer is irrational."""
    if expected.unit and naming.has_pi(answer.node):
        return True
    if shapes.number_written(expected) is None or _families(answer.node):
        return False
    try:
        return values.exact(answer.node) is None
    except values.NotExact:
        return True
    except values.NoValue:
        return False


def _values(shape: Shape) -> Iterator[Value]:
    """Yield the values that an answer gives; of a chain with "=" the last exact one."""
    match shape:
        case Value():
            yield shape
        case Items():
            for item in shape.items:
                yield from _values(item)
        case Matrix():
            for row in shape.rows:
                for cell in row:
                    yield from _values(cell)
        case Ratio():
            for part in shape.parts:
                yield from _values(part)
        case Relation() if set(shape.signs) <= {"=", "\\approx"}:
            yield from _values(shape.sides[_last_exact(shape)])
        case Relation():
            for side in shape.sides:
                yield from _values(side) if naming.is_closed(side) else ()


def _last_exact(shape: Relation) -> int:
    """Find the side that says the value: the last one, but for a name, or the one before ≈."""
    last = shape.sides[-1]
    if len(shape.sides) == 2 and naming.is_name(last) and not naming.is_closed(last):
        return 0
    place = shape.signs.index("\\approx") if "\\approx" in shape.signs else len(shape.signs)
    is_named = len(shape.sides) > 1 and naming.is_name(shape.sides[0])
    return 1 if is_named and not place else place


def is_plain(node: Node) -> bool:
    """Tell whether it is written as a number: an integer, a decimal, one fraction, 3 × 10^8."""
    match node:
        case ("number", *_) | ("based", *_) | ("constant", "infinity"):
            return True
        case ("-", ("-", _)):
            return False
        case ("-" | "%" | "degree", inside):
            return is_plain(inside)
        case ("/", top, bottom):
            return _is_whole(top) and (_is_whole(bottom) or _is_power_of_ten(bottom))
        case ("*", ("number", *_), power) | ("*", ("-", ("number", *_)), power):
            return _is_power_of_ten(power)
        case ("^", *_):
            return _is_power_of_ten(node)
    return False


def _is_division_to_do(node: Node) -> bool:
    """Tell whether it is a division of whole numbers whose result is one, too: 8/2, not 8/1."""
    match node:
        case ("-" | "%" | "degree", inside):
            return _is_division_to_do(inside)
        case ("/", top, ("number", bottom, *_)):
            return _is_whole(top) and bottom not in (0, 1) and values.exact(node).denominator == 1
    return False


def _is_whole(node: Node) -> bool:
    if node[0] == "-":
        return _is_whole(node[1])
    return node[0] == "number" and node[1].denominator == 1


def _is_power_of_ten(node: Node) -> bool:
    return node[0] == "^" and node[1][:2] == ("number", 10) and _is_whole(node[2])


def _families(node: Node) -> frozenset[str]:
    if node[0] in ("number", "constant", "symbol", "based"):
        return frozenset()
    family = frozenset((_FAMILIES[node[0]],)) if node[0] in _FAMILIES else frozenset()
    return family.union(*(_families(part) for part in node[1:] if isinstance(part, tuple)))


def _only_sign_left_out(expected: Shape, answer: Shape) -> bool:
    """Tell whether only the percent sign differs, as in 12 and 12 %; 0.12 equals 12 %."""
    if not isinstance(expected, Value) or not isinstance(answer, Value):
        return False
    return not values.has_same_value(expected.node, answer.node)


def _is_percentage(shape: Shape) -> bool:
    return isinstance(shape, Value) and shape.is_percent


def _restates(expected: Sequence[Shape], answer: Sequence[Shape], prompt: str) -> bool:
    """Tell whether the answer repeats a formula of the prompt that the reference does not."""
    expected_forms = {key for shape in expected if (key := canonical_form(shape)) is not None}
    for shape in answer:
        key = canonical_form(shape)
        if key is None or key in expected_forms:
            return False
    return any(
        _is_task(shape, prompt) and canonical_form(shape) in read_prompt_formulas(prompt)
        for shape in answer
    )


def _is_task(shape: Shape, prompt: str) -> bool:
    """Tell what a task asks to work on from a number or a name that its answer may have, too."""
    if not isinstance(shape, Value) or shape.is_percent:
        return True
    if shape.node[0] in ("symbol", "constant"):
        return False
    if not is_plain(shape.node) or _is_reducible(shape.node):
        return True
    asks_unit = bool(shape.unit) and _ASKS_UNIT.search(prompt)
    return bool(_CONVERSION.search(prompt) or asks_unit)


def _is_reducible(node: Node) -> bool:
    """Tell a division that is still to be done, as 84/4, from a fraction in lowest terms."""
    while node[0] == "-":
        node = node[1]
    if node[0] != "/" or node[1][0] != "number" or node[2][0] != "number":
        return False
    return bool(node[2][1]) and (node[1][1] / node[2][1]).denominator != node[2][1]


@lru_cache(maxsize=64)
def read_prompt_formulas(prompt: str) -> frozenset:
    """Read the formulas of a prompt, their sides and their parts, as they are written."""
    canonical_forms = set()
    texts = [text for text in _runs(prompt) if len(text) <= MAX_FORMULA_LENGTH]
    for text in texts[:MAX_FORMULAS]:
        for shape in shapes.list_meanings(text):
            canonical_forms |= {canonical_form(part) for part in _parts(shape)}
    return frozenset(canonical_forms - {None})


def _parts(shape: Shape) -> Iterator[Shape]:
    yield shape
    inside = getattr(shape, "sides", None) or getattr(shape, "items", None) or ()
    for part in inside:
        yield from _parts(part)


def _runs(prompt: str) -> Iterator[str]:
    """Yield the parts in dollars, and the runs of signs and numbers between words."""
    for span in _SPAN.finditer(prompt):
        yield next(group for group in span.groups() if group)
    run: list[str] = []
    for token in _TOKEN.findall(prompt.replace("$", " ")):
        bare = token.rstrip(".,;:?!")
        words = [word for word in _WORDS.findall(bare) if word.lower() not in _FUNCTIONS]
        if words or "\\boxed" in bare:
            if run and run[-1][-1:].isdigit() and units.is_known_unit(bare):
                yield from _statements([*run, bare])
            yield from _statements(run)
            run = []
            continue
        run.append(bare if bare != token and token[-1] not in "," else token)
        if bare != token and token[-1] in ".?!;:":
            yield from _statements(run)
            run = []
    yield from _statements(run)


def _statements(run: list[str]) -> Iterator[str]:
    while run and run[-1] in ("a", "I", "A", ",", "-", "="):
        run = run[:-1]
    while run and run[0] in ("a", "I", "A", ",", "="):
        run = run[1:]
    text = " ".join(run).rstrip(",")
    if text:
        yield text


def canonical_form(shape: Shape) -> Any:
    """Return how a formula is written, whatever the order of its terms; None for words."""
    match shape:
        case Value():
            return ("value", _canonical(shape.node), units.parse_unit(shape.unit) or shape.unit)
        case Relation():
            keys = tuple(canonical_form(side) for side in shape.sides)
            turned = tuple(flipped(sign) for sign in shape.signs[::-1])
            return min(("relation", shape.signs, keys), ("relation", turned, keys[::-1]), key=repr)
        case Items():
            return (
                "items",
                shape.left,
                tuple(canonical_form(item) for item in shape.items),
                shape.right,
            )
        case Matrix():
            return ("matrix", tuple(tuple(map(canonical_form, row)) for row in shape.rows))
        case Ratio():
            return ("ratio", tuple(canonical_form(part) for part in shape.parts))
    return None


def _canonical(node: Node) -> tuple:
    """Bring sums and products into one order; nothing is worked out."""
    match node:
        case ("number", _, digits) if "e" in digits.lower():  # 1.5e3 is written as 1.5 × 10^3
            mantissa, _, power = digits.lower().partition("e")
            ten = ("^", ("number", "10"), ("number", str(int(power))))
            return ("*", *sorted([("number", str(Fraction(mantissa))), ten], key=repr))
        case ("number", value, *_):
            return ("number", str(value))
        case ("symbol", *_) | ("constant", *_) | ("based", *_):
            return node
        case ("+", *_):
            return ("+", *sorted(_terms(node, "+"), key=repr))
        case ("-", inside):
            return ("*", *sorted([("number", "-1"), *_factors(inside)], key=repr))
        case ("*" | "/", *_):
            return ("*", *sorted(_factors(node), key=repr))
    return tuple(_canonical(part) if isinstance(part, tuple) else part for part in node)


def _terms(node: Node, kind: str) -> Iterator[tuple]:
    if node[0] == kind:
        for part in node[1:]:
            yield from _terms(part, kind)
    else:
        yield _canonical(node)


def _factors(node: Node) -> Iterator[tuple]:
    if node[0] == "*":
        for part in node[1:]:
            yield from _factors(part)
    elif node[0] == "/":
        yield from _factors(node[1])
        yield ("^", _canonical(node[2]), ("number", "-1"))
    else:
        yield _canonical(node)
