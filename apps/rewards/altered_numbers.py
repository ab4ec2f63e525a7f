"""Tell a number that words make another one of: half of 42, 42 squared, 42 plus 1, mehr als 42.

What is said before or behind the number must stand right beside it. "At least 42" is not altered:
it answers what the least number is.
"""

import re

_OF = "of|from|de|du|des|del|d'|von|vom|der|aus|от|из"
# Fractions, powers and the like of the number: half of 42, la moitié de 42, половина от 42.
_PART = (
    r"hal(?:f|ves)|thirds?|quarters?|fourths?|fifths?"
    r"|tenths?|square(?:\sroot)?|cube(?:\sroot)?|root"
    r"|reciprocal|inverse|negative|opposite|multiples?|factors?|divisors?|log(?:arithm)?|factorial"
    r"|double|triple|moitié|doubles?|tiers|quart|carrée?|racine(?:\scarrée)?|mitad|doble|tercio"
    r"|cuarto|cuarta\sparte|cuadrado|raíz(?:\scuadrada)?|hälfte|doppelte|dreifache|drittel|viertel"
    r"|quadrat|wurzel|половин[аыу]|треть|четверть|кор(?:ень|ня)|квадрат"
)
_BESIDE = (
    r"twice|thrice|double|triple|quadruple|half|doppelt|halb|(?:square|cube)\sroot|удвоенное"
    r"|(?:arc)?(?:sin|cos|tan|cot)h?|log|ln|lg|sqrt|exp"
)
_BOUND = (
    r"(?:more|less|fewer|greater|larger|smaller|higher|lower)\sthan|exceeds|exceeding"
    r"|(?:mehr|weniger|größer|kleiner)\sals"
    r"|(?:plus|moins)\sde|(?:más|menos|mayor|menor)\s(?:de|que)"
    r"|больше|меньше|более|менее"
)
_BEFORE = re.compile(
    rf"(?<![^\W_])(?:(?:{_PART})\s(?:{_OF})\s?(?:the\s|number\s)*|(?:{_BESIDE})\s|(?:{_BOUND})\s)$"
    r"|(?:超过|大于|小于|多于|少于|不到|不足)\s?$",
    re.I,
)
# Parts that a number before them counts; quarters and halves may be coins and those of a match.
_PARTS = "third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|hundredth|thousandth"
_BEHIND = re.compile(
    rf"\s?(?:(?:{_PARTS})s|(?:half|quarters?|{_PARTS})\sof"
    r"|squared|cubed|factorial|dozens?|plus|minus|divided\sby|multiplied\sby"
    r"|(?:times|over|less|by|choose)\s\S{0,3}\d|to\sthe\s(?:power|\w+\spower)"
    r"|below\s(?:zero|freezing)|(?:degrees|°)\s?[CF]?\s?below\szero"
    r"|or\s(?:more|less|fewer|higher|lower|above|below)"
    r"|and\s(?:an?\s|one\s)?(?:half|third|quarter)s?)"
    r"(?![^\W\d_])"
    r"|\s?[^\s。]{0,4}(?:的(?:一半|[^\s。]{0,4}倍|平方|立方|[^\s。]{1,3}分之)"
    r"|の(?:半分|[^\s。]{0,4}倍|[^\s。]{0,3}乗|平方))",
    re.I,
)


def is_altered(before: str, behind: str) -> bool:
    """Tell whether the text before a number, or the text behind it, makes another value of it."""
    return bool(_BEFORE.search(before[-40:]) or _BEHIND.match(behind))
