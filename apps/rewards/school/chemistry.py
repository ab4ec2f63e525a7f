"""Chemical formulas and equations: what they are made of, their charge and state, and whether an
equation is balanced.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from apps.rewards.school.formula_signs import SUBSCRIPTS, in_plain_signs

MAX_FORMULA_LENGTH = 400  # characters
DEEPEST = 6  # of brackets in brackets
MAX_NUMBER = 10_000  # of a number in a formula
MAX_TERMS = 20
SYMBOLS = (  # by atomic number
    "H",
    "He",
    "Li",
    "Be",
    "B",
    "C",
    "N",
    "O",
    "F",
    "Ne",
    "Na",
    "Mg",
    "Al",
    "Si",
    "P",
    "S",
    "Cl",
    "Ar",
    "K",
    "Ca",
    "Sc",
    "Ti",
    "V",
    "Cr",
    "Mn",
    "Fe",
    "Co",
    "Ni",
    "Cu",
    "Zn",
    "Ga",
    "Ge",
    "As",
    "Se",
    "Br",
    "Kr",
    "Rb",
    "Sr",
    "Y",
    "Zr",
    "Nb",
    "Mo",
    "Tc",
    "Ru",
    "Rh",
    "Pd",
    "Ag",
    "Cd",
    "In",
    "Sn",
    "Sb",
    "Te",
    "I",
    "Xe",
    "Cs",
    "Ba",
    "La",
    "Ce",
    "Pr",
    "Nd",
    "Pm",
    "Sm",
    "Eu",
    "Gd",
    "Tb",
    "Dy",
    "Ho",
    "Er",
    "Tm",
    "Yb",
    "Lu",
    "Hf",
    "Ta",
    "W",
    "Re",
    "Os",
    "Ir",
    "Pt",
    "Au",
    "Hg",
    "Tl",
    "Pb",
    "Bi",
    "Po",
    "At",
    "Rn",
    "Fr",
    "Ra",
    "Ac",
    "Th",
    "Pa",
    "U",
    "Np",
    "Pu",
    "Am",
    "Cm",
    "Bk",
    "Cf",
    "Es",
    "Fm",
    "Md",
    "No",
    "Lr",
    "Rf",
    "Db",
    "Sg",
    "Bh",
    "Hs",
    "Mt",
    "Ds",
    "Rg",
    "Cn",
    "Nh",
    "Fl",
    "Mc",
    "Lv",
    "Ts",
    "Og",
)
ELEMENTS = frozenset(SYMBOLS)
_ARROW = re.compile(
    r"<=++>|<-++>|(?<!-)-++>|(?<!=)=++>|→|⟶|⇌|⇋|⇄|↔|\\(?:long)?rightarrow|\\to(?![a-z])"
    r"|\\rightleftharpoons|\\leftrightarrow|="
)
_SPACED_CHARGE = re.compile(r"(?<=[A-Za-z0-9)\]])\s(\d?[+-])$")
_STATE = re.compile(r"(?:(?<!\s)\s++)?\(\s*+(s|l|g|aq)\s*+\)$")
_COUNT = re.compile(r"(\d{1,6}[.,]\d{1,4}|\d{1,6}(?:/\d{1,4})?)?\s*(.*)", re.DOTALL)
_PART = re.compile(r"((?:⟨\d{1,3}⟩)?[A-Z][a-z]?)(\d*)|([(\[])|([)\]])(\d*)")


class NotChemistry(ValueError):
    """Raised for a text that is no formula or equation; the message says why."""


@dataclass(frozen=True)
class Species:
    """`atoms` by element, with the water of a hydrate apart; `charge` in elementary charges;
    `state`: s, l, g, aq or "".
    """

    atoms: frozenset[tuple[str, Fraction]]
    hydrate: frozenset[tuple[str, Fraction]]
    charge: int
    state: str = ""

    @property
    def has_isotope(self) -> bool:
        return any(element.startswith("⟨") for element, _ in self.atoms)

    @property
    def stateless(self) -> "Species":
        return Species(self.atoms, self.hydrate, self.charge)


Side = dict[Species, Fraction]
Atoms = dict[str, Fraction]  # by element


_HEAVY_HYDROGEN = {"D": "⟨2⟩H", "T": "⟨3⟩H"}
_SINGLE_ISOTOPE = re.compile(
    r"(\d{1,3})\s?([A-Z][a-z]?)|([A-Za-z]{1,12}\s?(?=-)|[A-Za-z]{4,12}\s)-?\s?(\d{1,3})"
)
_ISOTOPE_IN_SENTENCE = re.compile(
    rf"(?<![\w^{{}}.,+-])(?:{_SINGLE_ISOTOPE.pattern})(?![\w^{{}}+-]|[.,]\d)"
)
_NAMES = {  # of elements whose isotopes are asked for
    "hydrogen": "H",
    "helium": "He",
    "lithium": "Li",
    "boron": "B",
    "carbon": "C",
    "nitrogen": "N",
    "oxygen": "O",
    "fluorine": "F",
    "sodium": "Na",
    "phosphorus": "P",
    "chlorine": "Cl",
    "potassium": "K",
    "calcium": "Ca",
    "iron": "Fe",
    "cobalt": "Co",
    "strontium": "Sr",
    "technetium": "Tc",
    "iodine": "I",
    "caesium": "Cs",
    "cesium": "Cs",
    "lead": "Pb",
    "polonium": "Po",
    "radon": "Rn",
    "radium": "Ra",
    "thorium": "Th",
    "uranium": "U",
    "plutonium": "Pu",
    "americium": "Am",
}
# What a side of an equation may name beside its formulas.
_ENERGY = re.compile(
    r"(?:energy|heat|(?:sun)?light|Δ|\\Delta|Q|hν|h\\nu|[\d.]{1,9}\s?kJ(?:/mol)?)", re.I
)


def plain_formula(text: str) -> str:
    """Return the text without LaTeX and small digits; charges as «2+». Raises NotChemistry."""
    if len(text) > MAX_FORMULA_LENGTH:
        raise NotChemistry("too long")
    return in_plain_signs(text)


# What stands behind a formula and says its name: (benzene), (rust).
_NAME = re.compile(r"\s\(\s?[A-Za-z][a-z -]{2,40}\s?\)$|\s?[,:–—-]\s[a-z][a-z ]{2,40}$")
_FORMULA = re.compile(r"(?:\d{1,4}(?:[./]\d{1,4})?)?[A-Z(\[][A-Za-z0-9()\[\]^{}+·.*_«»-]{0,60}")
_STATES = frozenset(("(s)", "(l)", "(g)", "(aq)"))


def without_name(text: str) -> str:
    """Take away the name behind a formula."""
    return _NAME.sub("", text.strip().rstrip(".,;").strip())


def stated_formula(text: str) -> str:
    """Return the formula after the last "is" of a sentence that ends with it; else ""."""
    last = re.search(
        r"\s(?:is|ist|est|es|:)\s\$?([A-Z(\[]\S{0,60}?(?:\s\d?[+-])?)[.!$*\s]{0,4}$", text
    )
    if last is None:
        return ""
    try:
        species(last[1])
    except NotChemistry:
        return ""
    return last[1]


def has_sum(text: str) -> bool:
    """Tell whether a "+" stands between two formulas."""
    words = text.replace("$", " ").replace("**", " ").split()
    return any(
        word == "+" and _is_term(before) and _is_term(behind)
        for before, word, behind in zip(words, words[1:], words[2:], strict=False)
    )


def formula_in(text: str) -> str:
    """Return the only formula of a sentence: a word with digits or several elements; else ""."""
    formulas = set()
    for word in text.replace("$", " ").split():
        bare = word.strip(".,;:!?*\"'")
        if not re.search(r"[\d₀-₉]|[A-Z].*[A-Z]", bare) or not re.match(r"[A-Z(\[]", bare):
            continue
        try:
            species(bare)
        except NotChemistry:
            continue
        formulas.add(bare)
    return formulas.pop() if len(formulas) == 1 else ""


def equation_in(text: str) -> str:
    """Return the equation of a sentence: the words around its arrow that are formulas; else ""."""
    words = text.replace("$", " ").replace("**", " ").split()
    arrows = [place for place, word in enumerate(words) if _ARROW.fullmatch(word)]
    if len(arrows) != 1:
        return ""
    begin = end = arrows[0]
    while begin and _is_term(words[begin - 1]):
        begin -= 1
    while end + 1 < len(words) and _is_term(words[end + 1]) and not words[end].endswith((",", ";")):
        end += 1
    return " ".join(words[begin : end + 1]).rstrip(".,;")


def _is_term(word: str) -> bool:
    bare = word.rstrip(".,;")
    is_sign = (
        bare == "+"
        or bool(re.fullmatch(r"\d?[+-]", bare))
        or bare in _STATES
        or bool(re.fullmatch(r"\d{1,4}(?:[./]\d{1,4})?", bare))
    )
    return is_sign or bool(_FORMULA.fullmatch(bare.translate(SUBSCRIPTS))) or bare in ("e-", "e⁻")


def has_arrow(text: str) -> bool:
    """Tell whether a line has an arrow between two words."""
    words = text.replace("$", " ").replace("**", " ").split()
    return any(word != "=" and _ARROW.fullmatch(word) for word in words[1:])


def is_equation(text: str) -> bool:
    return bool(_ARROW.search(plain_formula(text)))


_BOND = re.compile(r"(?<=[A-Za-z0-9)])-(?=[A-Z(])")  # C6H5-OH


def species(text: str) -> Species:
    """Return one formula without a number in front. Raises NotChemistry."""
    return _species(_BOND.sub("", plain_formula(text)))


def isotope(text: str) -> str:
    """Write C-14, carbon-14 and 14C as ^{14}C, also as the only isotope of a sentence.

    Other texts stay as they are.
    """
    whole = _SINGLE_ISOTOPE.fullmatch(text.strip())
    in_sentence = [] if whole else _ISOTOPE_IN_SENTENCE.finditer(text)
    isotopes = {
        name for match in [whole, *in_sentence] if match and (name := _marked_isotope(match))
    }
    return isotopes.pop() if len(isotopes) == 1 else text


def _marked_isotope(match: re.Match) -> str:
    """Return an isotope as ^{14}C; "" if its name is not that of an element."""
    name = (match[3] or "").strip()
    element = _NAMES.get(name.lower(), match[2] or name)
    return f"^{{{match[1] or match[4]}}}{element}" if element in ELEMENTS else ""


def _species(text: str) -> Species:
    state_match = _STATE.search(text)
    text = text if state_match else _SPACED_CHARGE.sub(r"«\1»", text.strip())
    state, text = (
        (state_match[1], text[: state_match.start()].strip()) if state_match else ("", text.strip())
    )
    if re.fullmatch(r"e(?:«1?-»|-)", text):
        return Species(frozenset(), frozenset(), -1, state)
    text, charge = _charge(text)
    main, *waters = [part.strip() for part in text.split("·")]
    hydrate: Atoms = {}
    for water in waters:
        times, formula = _split_coefficient(water)
        _add(hydrate, _atoms(formula), times)
    return Species(frozenset(_atoms(main).items()), frozenset(hydrate.items()), charge, state)


def _charge(text: str) -> tuple[str, int]:
    """Return the formula without its charge.

    Ca2+ and SO42- have the charge 2, NO3- and NH4+ the charge 1.
    """
    if match := re.search(r"«(\d*)([+-])»$", text):
        return text[: match.start()].strip(), int(match[1][:3] or 1) * (
            1 if match[2] == "+" else -1
        )
    digits_and_signs = text.rstrip("+-")
    signs = text[len(digits_and_signs) :]
    if not signs:
        return text, 0
    formula = re.sub(r"(?<!\d)\d++\Z", "", digits_and_signs)
    digits = digits_and_signs[len(formula) :]
    sign = 1 if signs[0] == "+" else -1
    if len(signs) > 1 or not digits:
        return formula + digits, sign * len(signs)
    if re.fullmatch(r"[A-Z][a-z]?", formula) or formula.endswith("]"):
        return formula, sign * int(digits[:3])
    return (
        (formula + digits[:-1], sign * int(digits[-1]))
        if len(digits) > 1
        else (formula + digits, sign)
    )


def _add(total: Atoms, more: Mapping[str, Fraction], times: Fraction) -> None:
    for element, count in more.items():
        total[element] = total.get(element, Fraction(0)) + times * count


def _atoms(text: str) -> Atoms:
    """Return atoms by element. Raises NotChemistry."""
    stack: list[Atoms] = [{}]
    place = 0
    text = re.sub(r"\s+", "", text)
    while place < len(text):
        part = _PART.match(text, place)
        if not part:
            raise NotChemistry(f"{text[place : place + 10]!r} is not an element")
        place = part.end()
        _read_part(part, stack)
    if len(stack) > 1 or not stack[0]:
        raise NotChemistry(
            "a bracket is not closed" if stack[0] or len(stack) > 1 else "no formula"
        )
    return stack[0]


def _read_part(part: re.Match, stack: list[Atoms]) -> None:
    element, count, opened, closed, times = part.groups()
    if element:
        element = _HEAVY_HYDROGEN.get(element, element)
        if element.rpartition("⟩")[2] not in ELEMENTS:
            raise NotChemistry(f"{element} is not an element")
        _add(stack[-1], {element: _read_subscript(count)}, Fraction(1))
    elif opened:
        stack.append({})
        if len(stack) > DEEPEST:
            raise NotChemistry("too many brackets")
    elif closed and len(stack) > 1:
        inside = stack.pop()
        _add(stack[-1], inside, _read_subscript(times))
    else:
        raise NotChemistry("a bracket was not opened")


def _read_subscript(digits: str) -> Fraction:
    if len(digits) > 5 or (digits and not 0 < int(digits) <= MAX_NUMBER):
        raise NotChemistry(f"{digits[:10]} is not a number of atoms")
    return Fraction(int(digits or 1))


def _split_coefficient(text: str) -> tuple[Fraction, str]:
    """Split off the coefficient in front of a formula; it is 1 if there is none."""
    match = _COUNT.fullmatch(text.strip())
    assert match is not None  # its last group matches any text
    number, formula = match.groups()
    try:
        times = Fraction((number or "1").replace(",", "."))
    except ZeroDivisionError:
        raise NotChemistry("divided by zero") from None
    if not times:
        raise NotChemistry("none of something")
    return times, formula


def equation(text: str) -> tuple[Side, Side]:
    """Return the two sides of an equation with their coefficients. Raises NotChemistry."""
    sides = _ARROW.split(plain_formula(text))
    if len(sides) != 2:
        raise NotChemistry("not one equation")
    left, right = (_side(side) for side in sides)
    if any(substance.has_isotope and substance.charge == 0 for substance in (*left, *right)):
        raise NotChemistry("a reaction of nuclei")
    return left, right


def _side(text: str) -> Side:
    terms = re.split(
        r"\s\+\s|(?<=[»)\w\]])\s*\+(?=\s*(?:\d|[A-Z\[]|\((?!(?:s|l|g|aq)\))|e[-«]))", text.strip()
    )
    if len(terms) > MAX_TERMS:
        raise NotChemistry("too many terms")
    side: Side = {}
    for term in terms:
        if _ENERGY.fullmatch(term.strip()):
            continue
        times, formula = _split_coefficient(term)
        substance = _species(formula)
        side[substance] = side.get(substance, Fraction(0)) + times
    return side


def unbalanced(left: Side, right: Side) -> str:
    """Return an element whose number differs between the two sides; "" if they balance."""
    left_total = _total(left)
    right_total = _total(right)
    names = sorted({*left_total, *right_total})
    return next((name for name in names if left_total.get(name, 0) != right_total.get(name, 0)), "")


def _total(side: Side) -> Atoms:
    total: Atoms = {}
    for substance, times in side.items():
        _add(total, dict(substance.atoms), times)
        _add(total, dict(substance.hydrate), times)
        _add(total, {"charge": Fraction(substance.charge)}, times)
    return total


def equation_ratio(expected: tuple[Side, Side], answer: tuple[Side, Side]) -> Fraction | None:
    """Return the factor between the equation and the reference; None for another reaction."""
    ratios = set()
    for expected_side, answer_side in zip(expected, answer, strict=True):
        if set(expected_side) != set(answer_side):
            return None
        ratios |= {answer_side[substance] / times for substance, times in expected_side.items()}
    return ratios.pop() if len(ratios) == 1 else None
