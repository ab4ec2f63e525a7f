"""Tell condensed structural formulas apart that have the same atoms: CH3CH2OH and CH3OCH3.

Each atom but hydrogen has the hydrogen that stands beside it. The bonds of open chains follow from
the order of the atoms: CH3COOCH2CH3 is not CH3CH2COOCH3. Where they do not, such as in rings, the
atoms with their hydrogen are counted.
"""

import re
from collections import Counter
from hashlib import sha256
from typing import NamedTuple

MAX_STRUCTURE_LENGTH = 200  # characters
MAX_REPEATS = 30  # that a group is repeated
_GROUP = re.compile(r"\(([A-Za-z0-9]{1,30})\)(\d{0,2})")
_ALKYL = re.compile(r"C(\d{1,2})H(\d{1,2})(?!\d)")
_ATOM = re.compile(r"(?:(?<![A-Za-z0-9])H(\d?))?([A-GI-Z][a-z]?)(\d*)(?:H(\d*))?")
_SMILES = re.compile(r"(?:Cl|Br|[BCNOPSFI])(?:Cl|Br|[BCNOPSFI]|\d|[()=#@/\\]){1,199}")
_NUMBER_OF_ATOMS = re.compile(r"(?:[OSPFI]|Cl|Br|\))\d|C[2-9](?!.*C[2-9])")
_BONDS = re.compile(r"[-–—=≡#\s]")

VALENCES = {"C": 4, "N": 3, "O": 2, "S": 2, "F": 1, "Cl": 1, "Br": 1, "I": 1}

Unit = tuple[str, int]  # an element and its hydrogen


class Molecule(NamedTuple):
    """Atoms with their hydrogen, and the places of the atoms that each one is bound to."""

    units: list[Unit]
    neighbours: list[list[int]]


def is_smiles(text: str) -> bool:
    """Tell whether a text is a SMILES string: carbon atoms one by one, without their hydrogen."""
    is_written_so = _SMILES.fullmatch(text.strip()) and not _NUMBER_OF_ATOMS.search(text)
    return bool(is_written_so) and len(re.findall(r"C(?!l)", text)) > 1


def differ(first: str, second: str) -> bool:
    """Tell whether both formulas show how the atoms are bound, and differ in it.

    A formula that has carbon in one place, such as C2H6O, does not say it. Chains whose bonds are
    all known are compared bond by bond, others by their atoms with the hydrogen beside them.
    """
    first_units = _units(first)
    second_units = _units(second)
    if first_units is None or second_units is None:
        return False
    first_chain = _chain_of(first_units)
    second_chain = _chain_of(second_units)
    if first_chain and second_chain:
        return _neighbourhoods(first_chain) != _neighbourhoods(second_chain)
    return Counter(first_units) != Counter(second_units)


def is_only_composition(expected: str, answer: str) -> bool:
    """Tell whether the answer only counts the atoms that the expected formula arranges.

    C2H4O2 names each element once, CH3COOH does not.
    """
    elements = [re.findall(r"[A-Z][a-z]?", text) for text in (expected, answer)]
    names_again = [len(set(names)) < len(names) for names in elements]
    return names_again == [True, False] and len(elements[1]) > 1


def _units(text: str) -> list[Unit] | None:
    """List the atoms with their hydrogen; None for what is no condensed structural formula."""
    if len(text) > MAX_STRUCTURE_LENGTH:
        return None
    plain = _ALKYL.sub(_expand_alkyl, _repeat_groups(_BONDS.sub("", text)))
    if len(re.findall(r"C(?![a-z])", plain)) < 2 or re.search(r"C\d", plain):
        return None
    units: list[Unit] = []
    place = 0
    while place < len(plain):
        atom = _ATOM.match(plain, place)
        if atom is None:
            return None
        place = atom.end()
        before, element, several, behind = atom.groups()
        times = min(_number(several or "1"), MAX_REPEATS)
        hydrogen = _number(before) + _number(behind)
        units += [(element, 0)] * (times - 1) + [(element, hydrogen)]
    return units


def _chain_of(units: list[Unit]) -> Molecule | None:
    """Bind the atoms in the order in which they are written, or else in the opposite order."""
    return _bind_in_order(units) or _bind_in_order(units[::-1])


def _bind_in_order(units: list[Unit]) -> Molecule | None:
    """Bind each atom to the last one before it that has a bond left; None if any is left over.

    Oxygen behind a carbon atom with two bonds left takes both, and nitrogen three: CH3COOCH3.
    """
    free_bonds = [VALENCES.get(element, 0) - hydrogen for element, hydrogen in units]
    neighbours: list[list[int]] = [[] for _ in units]
    for place in range(1, len(units)):
        last = next(
            (earlier for earlier in reversed(range(place)) if free_bonds[earlier] > 0), None
        )
        if last is None or free_bonds[place] <= 0:
            return None
        is_multiple = units[place][0] in "ON" and units[last][0] == "C"
        bonds = free_bonds[place] if is_multiple and free_bonds[last] >= free_bonds[place] else 1
        free_bonds[last] -= bonds
        free_bonds[place] -= bonds
        neighbours[place].append(last)
        neighbours[last].append(place)
    return None if any(free_bonds) else Molecule(units, neighbours)


def _neighbourhoods(molecule: Molecule) -> list[str]:
    """Return sorted signatures of the atoms' surroundings, equal only for equal trees."""
    labels = [f"{element}{hydrogen}" for element, hydrogen in molecule.units]
    for _ in molecule.units:
        around = [sorted(labels[neighbour] for neighbour in near) for near in molecule.neighbours]
        signatures = [repr((label, near)) for label, near in zip(labels, around, strict=True)]
        labels = [sha256(signature.encode()).hexdigest() for signature in signatures]
    return sorted(labels)


def _number(digits: str | None) -> int:
    return 0 if digits is None else int(digits or 1)


def _repeat_groups(text: str) -> str:
    """Write groups in brackets as often as they are there: CH3(CH2)2CH3 is CH3CH2CH2CH3."""
    return _GROUP.sub(lambda group: group[1] * min(int(group[2] or 1), MAX_REPEATS), text)


def _expand_alkyl(match: re.Match) -> str:
    """Write an alkyl group as a chain, as CH3CH2 for C2H5; other groups stay unchanged."""
    carbon = int(match[1])
    if int(match[2]) != 2 * carbon + 1 or carbon > MAX_REPEATS:
        return match.group()
    inner = "CH2" * (carbon - 1)
    return inner + "CH3" if match.start() else "CH3" + inner
