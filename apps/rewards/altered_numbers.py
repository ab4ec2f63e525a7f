"""Tell a number that words make another one of: half of 42, 42 squared, 42 plus 1, at least 42.

What is said before or behind the number must stand right beside it. Where a question asks for the
least or the most, "at least 42" is the answer to it: `without_asked_bounds` leaves the words out.
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
_LEAST = (
    r"at\sleast|(?:a\s|the\s)?minimum\sof|no(?:t)?\s(?:less|fewer)\sthan|mindestens|wenigstens"
    r"|nicht\sweniger\sals|minimal|au\smoins|au\sminimum|pas\smoins\sde|al\smenos|por\slo\smenos"
    r"|como\smínimo|no\smenos\sde|не\s(?:менее|меньше)|как\sминимум|минимум"
)
_LEAST_IN_CJK = "至少|最少|不少于|少なくとも|最低でも"
_MOST = (
    r"at\smost|(?:a\s|the\s)?maximum\sof|no(?:t)?\smore\sthan|höchstens|maximal|nicht\smehr\sals"
    r"|bis\szu|au\s(?:plus|maximum)|pas\splus\sde|jusqu['’]à|a\slo\ssumo|como\s(?:mucho|máximo)"
    r"|no\smás\sde|не\s(?:более|больше)|максимум"
    r"|(?<!add\s)(?<!adds\s)(?<!sum\s)(?<!sums\s)(?<!adding\s)(?<!comes\s)up\sto"
)
_MOST_IN_CJK = "至多|最多|不超过|多くとも|最大で"
_BOUND = (
    rf"{_LEAST}|{_MOST}|(?:more|less|fewer|greater|larger|smaller|higher|lower)\sthan|exceeds"
    r"|exceeding|over|under|above|below|upwards\sof|anything\sfrom"
    r"|(?:mehr|weniger|größer|kleiner)\sals|über|unter"
    r"|(?:plus|moins)\sde|(?:más|menos|mayor|menor)\s(?:de|que)|hasta"
    r"|больше|меньше|более|менее|свыше"
)
_IN_CJK = f"{_LEAST_IN_CJK}|{_MOST_IN_CJK}|超过|大于|小于|多于|少于|不到|不足|高于|低于|以上"
# Signs of order, but no arrows: -> 42, => 42.
_SIGNS = r"(?<![-=—–])[<>](?:=|\s?=)?|[≤≥≦≧⩽⩾≮≯]|\\(?:geq?|leq?|geqslant|leqslant|gt|lt)(?![a-z])"
_BOUND_BEFORE = re.compile(rf"(?<![^\W_])(?:{_BOUND})\s$|(?:{_IN_CJK}|{_SIGNS})\s?$", re.I)
_BEFORE = re.compile(
    rf"(?<![^\W_])(?:(?:{_PART})\s(?:{_OF})\s?(?:the\s|number\s)*|(?:{_BESIDE})\s)$", re.I
)
# Years before and after the one that is named.
_BEFORE_YEAR = re.compile(
    r"(?<![^\W_])(?:by|before|after|since|until|till|prior\sto|pre-?|post-?|vor|nach|seit|bis"
    r"|avant|après|depuis|(?:no|not)\slater\sthan|spätestens|au\splus\stard|не\s(?:позже|позднее)"
    r"|antes\sdel?|después\sde(?:l)?|desde|hasta|до|после|с|к)\s?$",
    re.I,
)
_BEHIND_YEAR = re.compile(
    r"\s?年?(?:之?前|以前|之后|以后|以後|より前|まで|から)|s(?![^\W_])|\sBC\b"
)
_YEAR = re.compile(r"[12]\d{3}")
# Parts that a number before them counts; quarters and halves may be coins and those of a match.
_PARTS = "third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|hundredth|thousandth"
_BEHIND = re.compile(
    rf"\s?(?:(?:{_PARTS})s|(?:half|quarters?|{_PARTS})\sof"
    r"|squared|cubed|factorial|dozens?|plus|minus|divided\sby|multiplied\sby"
    r"|(?:times|over|less|by|choose)\s\S{0,3}\d|to\sthe\s(?:power|\w+\spower)"
    r"|below\s(?:zero|freezing)|(?:degrees|°)\s?[CF]?\s?below\szero"
    r"|or\s(?:so\s)?(?:more|less|fewer|higher|lower|above|below|greater)|(?:and|und)\s(?:up|mehr)"
    r"|oder\s(?:mehr|weniger)|ou\s(?:plus|moins)|o\s(?:más|menos)"
    r"|или\s(?:более|менее|больше|меньше)"
    r"|at\s(?:least|most)|minimum|maximum"
    r"|and\s(?:an?\s|one\s)?(?:half|third|quarter)s?)"
    r"(?![^\W\d_])"
    r"|\+(?=[\s.,;)]|$)|\s?[^\s\d。]{0,3}(?:以上|以下|以内|未満|以上の)"
    r"|\s?BCE?(?![A-Za-z])"
    r"|\s?[个個位名条只天年]?多(?=[。，,.\s]|$)|![^\S\n](?=[a-z])"
    r"|\s?[^\s。]{0,4}(?:的(?:一半|[^\s。]{0,4}倍|平方|立方|[^\s。]{1,3}分之)"
    r"|の(?:半分|[^\s。]{0,4}倍|[^\s。]{0,3}乗|平方))",
    re.I,
)


# Only from the beginning of a row of marks, so that a long row is read once.
_MARKS = re.compile(r"(?<![\s{}$*_(])(?<!\\[()])(?:\\[()]|[\s{}$*_(])+$")
_ASKS_LEAST = re.compile(
    r"\b(?:least|minimum|minimal|fewest|smallest|lowest|mindestens|mindest\w*|kleinste\w*|wenigsten"
    r"|au\smoins|plus\spetite?|minimale?|minimum|menor|mínim[ao]|al\smenos)\b|至少|最少|最小"
    r"|少なくとも|最低|наименьш|минимальн|не\sменее",
    re.I,
)
_ASKS_MOST = re.compile(
    r"\b(?:most|maximum|maximal|largest|greatest|highest|höchstens|größte\w*|meisten|au\splus"
    r"|plus\sgrande?|maximale?|mayor|máxim[ao]|como\smucho)\b|至多|最多|最大|наибольш|максимальн"
    r"|не\sболее",
    re.I,
)
_LEASTS = re.compile(rf"(?<![^\W_])(?:{_LEAST})\s|(?:{_LEAST_IN_CJK})\s?", re.I)
_MOSTS = re.compile(rf"(?<![^\W_])(?:{_MOST})\s|(?:{_MOST_IN_CJK})\s?", re.I)


def is_altered(before: str, behind: str, number: str = "") -> bool:
    """Tell whether the text before a number, or the text behind it, makes another value of it.

    Of a `number` that may be a year, "by" and "before" make another one, too.
    """
    if is_bound(before) or _BEHIND.match(behind):
        return True
    before = _near(before)
    if _BEFORE.search(before):
        return True
    is_year = _YEAR.fullmatch(number.strip()) and not re.match(r"\s?[a-zà-ÿа-яё]{3}", behind, re.I)
    return bool(is_year and (_BEFORE_YEAR.search(before) or _BEHIND_YEAR.match(behind)))


def is_bound(before: str) -> bool:
    """Tell whether the words before a number make it a bound: more than 42, at least 42."""
    return bool(_BOUND_BEFORE.search(_near(before)))


def _near(before: str) -> str:
    """Return the end of the text before a number, without the marks that open around it."""
    return _MARKS.sub(" ", before[-60:])[-40:]


def without_asked_bounds(reply: str, question: str) -> str:
    """Leave out "at least" where the question asks for the least, and "at most" for the most."""
    if _ASKS_LEAST.search(question):
        reply = _LEASTS.sub("", reply)
    return _MOSTS.sub("", reply) if _ASKS_MOST.search(question) else reply
