"""Read reactions of nuclei, and compare them: ^{14}_{6}C -> ^{14}_{7}N + ^{0}_{-1}e.

A nuclide is known by its mass number and its charge number; the charge number of an element may be
left out. Gamma rays and neutrinos carry neither, so that they may be left out.
"""

import re
from collections import Counter

from apps.rewards.school.chemistry import SYMBOLS, NotChemistry
from apps.rewards.school.formula_signs import SUBSCRIPTS, SUPERSCRIPTS

MAX_EQUATION_LENGTH = 400  # characters
MAX_TERMS = 20
_ARROW = re.compile(r"-++>|→|⟶|\\(?:long)?rightarrow|\\to(?![a-z])")
_RUN_ABOVE = re.compile("[" + "".join(SUPERSCRIPTS) + "]+")
_RUN_BELOW = re.compile("[₀-₉₊₋]+")
_COMMAND = re.compile(r"\\(?:ce|text|mathrm|mathbf|rm|textrm) ?\{((?:[^{}]|\{[^{}]*\})*)\}")
_UNPRINTED = re.compile(r"\$|\\[,;!:() \[\]]|\\left(?=[(\[])|\\right(?=[)\]])|\{\}|\*\*")
_BRACED = re.compile(r"([_^]) ?\{ ?([+-]?\d{0,4}[+-]?) ?\}")
_PLUS = re.compile(r"(?<![_^\d]) ?\+ ?|(?<=[\w)]) ?\+ ")
_TERM = re.compile(
    r"(?P<times>\d{1,2}(?=[ ^_(\\A-Za-z]))? ?\(?"
    r"(?:\^(?P<mass>\d{1,3}) ?_(?P<charge>[+-]?\d{1,3})"
    r"|_(?P<charge_first>[+-]?\d{1,3}) ?\^(?P<mass_behind>\d{1,3})|\^(?P<mass_alone>\d{1,3}))?"
    r" ?(?P<name>\\?[A-Za-zα-ων̄]{1,10})(?P<sign>\^?[+-])?(?:-(?P<hyphened>\d{1,3}))?\)?"
)
_WITHOUT_EFFECT = re.compile(
    r"\d?\s?(?:\^0\s?_0\s?)?(?:\\gamma|γ|gamma|energy|Q|\\?(?:bar|overline)?\s?\{?\s?\\?(?:nu|ν)"
    r"\}?̄?(?:_\{?e\}?)?|ν̄(?:_?e)?)"
)
# Mass number and charge number of particles that are no element.
_PARTICLES = {
    "e": (0, -1),
    "e-": (0, -1),
    "β": (0, -1),
    "β-": (0, -1),
    "e+": (0, 1),
    "β+": (0, 1),
    "n": (1, 0),
    "p": (1, 1),
    "p+": (1, 1),
    "α": (4, 2),
    "d": (2, 1),
    "t": (3, 1),
}
_GREEK = {"\\alpha": "α", "alpha": "α", "\\beta": "β", "beta": "β"}

Nuclide = tuple[int, int]  # mass number and charge number
Side = Counter[Nuclide]


def is_reaction(text: str) -> bool:
    """Tell whether a text is a reaction of nuclei, with the mass number of at least one."""
    if len(text) > MAX_EQUATION_LENGTH or not re.search(r"\^|[⁰¹²³⁴-⁹]|[A-Z][a-z]?-\d", text):
        return False
    try:
        left, right = reaction(text)
    except NotChemistry:
        return False
    return any(mass > 1 for mass, _ in (*left, *right))


def reaction(text: str) -> tuple[Side, Side]:
    """Return the nuclides of both sides with their numbers. Raises NotChemistry."""
    if len(text) > MAX_EQUATION_LENGTH:
        raise NotChemistry("too long")
    sides = _ARROW.split(_plain(text))
    if len(sides) != 2:
        raise NotChemistry("not one equation")
    return _side(sides[0]), _side(sides[1])


def unbalanced(left: Side, right: Side) -> str:
    """Return which sum differs between the sides; "" if mass and charge are balanced."""
    for place, name in enumerate(("mass number", "charge number")):
        sums = [
            sum(nuclide[place] * times for nuclide, times in side.items()) for side in (left, right)
        ]
        if sums[0] != sums[1]:
            return name
    return ""


def _plain(text: str) -> str:
    """Write raised and lowered numbers as ^14 and _6, without LaTeX around them."""
    text = " ".join(text.replace("−", "-").replace("–", "-").split())
    text = _RUN_ABOVE.sub(lambda run: "^" + "".join(SUPERSCRIPTS[sign] for sign in run[0]), text)
    text = _RUN_BELOW.sub(lambda run: "_" + run[0].translate(SUBSCRIPTS), text)
    text = _UNPRINTED.sub("", _COMMAND.sub(r"\1", text))
    return " ".join(_BRACED.sub(r"\1\2", text).rstrip(".,; ").split())


def _side(text: str) -> Side:
    terms = _PLUS.split(text.strip())
    if len(terms) > MAX_TERMS:
        raise NotChemistry("too many terms")
    side: Side = Counter()
    for term in terms:
        if not _WITHOUT_EFFECT.fullmatch(term.strip()):
            nuclide, times = _nuclide(term.strip())
            side[nuclide] += times
    if not side:
        raise NotChemistry("a side without nuclei")
    return side


def _nuclide(term: str) -> tuple[Nuclide, int]:
    """Return a nuclide and its number in the reaction. Raises NotChemistry."""
    match = _TERM.fullmatch(term)
    if match is None:
        raise NotChemistry(f"{term[:20]!r} is not a nuclide")
    mass = match["mass"] or match["mass_behind"] or match["mass_alone"] or match["hyphened"]
    charge = match["charge"] or match["charge_first"]
    sign = (match["sign"] or "").lstrip("^")
    name = _GREEK.get(match["name"], match["name"])
    expected_numbers = _PARTICLES.get(name + sign)
    if expected_numbers is None:
        expected_numbers = _element(name, sign, mass)
    elif name in ("e", "β") and not sign and charge in ("1", "+1"):
        expected_numbers = (0, 1)
    written_numbers = (
        int(mass) if mass else expected_numbers[0],
        int(charge) if charge else expected_numbers[1],
    )
    if written_numbers != expected_numbers:
        raise NotChemistry(f"{name} has other numbers")
    return written_numbers, int(match["times"] or 1)


def _element(name: str, sign: str, mass: str | None) -> Nuclide:
    if name not in SYMBOLS or sign or not mass:
        raise NotChemistry(f"{name[:20]!r} is not a nuclide")
    return int(mass), SYMBOLS.index(name) + 1
