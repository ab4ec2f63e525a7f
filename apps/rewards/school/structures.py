"""Tell condensed structural formulas apart that have the same atoms: CH3CH2OH and CH3OCH3.

Each atom but hydrogen is counted with the hydrogen that stands beside it. Formulas of the same
molecule have the same counts, in whatever order they are written.
"""

import re
from collections import Counter

LONGEST = 200  # characters
MOST_TIMES = 30  # that a group is repeated
_GROUP = re.compile(r"\(([A-Za-z0-9]{1,30})\)(\d{0,2})")
_ALKYL = re.compile(r"C(\d{1,2})H(\d{1,2})(?!\d)")
_ATOM = re.compile(r"(?:(?<![A-Za-z0-9])H(\d?))?([A-GI-Z][a-z]?)(\d*)(?:H(\d*))?")
_BONDS = re.compile(r"[-–—=≡#\s]")

Groups = Counter[tuple[str, int]]  # of an element and its hydrogen


def differ(one: str, other: str) -> bool:
    """Tell whether both texts say how the atoms are bound, and say it differently.

    A formula that has carbon in one place, such as C2H6O, does not say it.
    """
    ours = _groups(one)
    theirs = _groups(other)
    return ours is not None and theirs is not None and ours != theirs


def _groups(text: str) -> Groups | None:
    """Count the atoms with their hydrogen; None for what is no condensed structural formula."""
    if len(text) > LONGEST:
        return None
    plain = _ALKYL.sub(_chain, _repeated(_BONDS.sub("", text)))
    if len(re.findall(r"C(?![a-z])", plain)) < 2 or re.search(r"C\d", plain):
        return None
    found: Groups = Counter()
    place = 0
    while place < len(plain):
        atom = _ATOM.match(plain, place)
        if atom is None:
            return None
        place = atom.end()
        before, element, several, behind = atom.groups()
        hydrogen = _number(before) + _number(behind)
        found[element, hydrogen] += 1
        found[element, 0] += _number(several or "1") - 1
    return +found


def _number(digits: str | None) -> int:
    return 0 if digits is None else int(digits or 1)


def _repeated(text: str) -> str:
    """Write groups in brackets as often as they are there: CH3(CH2)2CH3 is CH3CH2CH2CH3."""
    return _GROUP.sub(lambda group: group[1] * min(int(group[2] or 1), MOST_TIMES), text)


def _chain(found: re.Match) -> str:
    """Write an alkyl group as a chain: C2H5 is CH3CH2. Others stay as they are."""
    carbon = int(found[1])
    if int(found[2]) != 2 * carbon + 1 or carbon > MOST_TIMES:
        return found.group()
    return "CH3" + "CH2" * (carbon - 1)
