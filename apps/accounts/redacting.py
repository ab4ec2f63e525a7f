"""Replace personal data in exported texts by named marks, and count the replacements.

Data with a recognizable form is replaced: e-mail addresses, IBANs (ISO 13616: the country's length,
and the number modulo 97 is 1), card numbers (an issuer's prefix and length, Luhn's checksum of
ISO/IEC 7812), IP addresses, and telephone numbers in E.164 or national notation. Names, streets and
the content of pictures have no such form and stay.

Where a number is ambiguous, the meaning that a task needs wins: a date, a decimal, a version or a
list of numbers is not a telephone number, and a bare run of digits is one only after a plus sign.
"""

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, overload

MARKS = {
    "e-mail addresses": "[e-mail address]",
    "IBANs": "[IBAN]",
    "card numbers": "[card number]",
    "IP addresses": "[IP address]",
    "telephone numbers": "[telephone number]",
}
# Countries by the characters of their IBANs: SWIFT's registry.
LENGTHS = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
IBANS = {country: length for length, countries in LENGTHS.items() for country in countries.split()}
CARDS = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:6011|65\d\d|64[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"
)  # Visa, Mastercard, American Express, Diners Club, Discover, JCB, UnionPay
# Words before a number that has four parts but is not an address.
VERSION = re.compile(
    r"(?:\bv\.?|\bver\.?|version|release|build|firmware|section|chapter|§|[=~<>]=|\bsdk)\s*$",
    re.IGNORECASE,
)
DATE = re.compile(r"\d{1,2}([ /-])\d{1,2}\1(?:19|20)\d\d\b")
# Text before numbers that belong to a task.
NUMBERS = re.compile(
    r"(?:\b(?:numbers|digits|series|sequence|sort|order|list|row|multiples|pattern|values|terms"
    r"|sum|average|mean|median)\b)"
    r"[^.!?\n]{0,12}$",
    re.IGNORECASE,
)
OF_PHONES = re.compile(r"phone|mobile|cell|fax|\b(?:call|tel|dial|contact|reach)\b", re.IGNORECASE)
MIN_TERMS = 4
LOOKED_BACK = 24  # characters before a number that are examined


def spaced(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern in which a space also matches non-breaking spaces."""
    return re.compile(pattern.replace("[ ", "[ \u00a0\u202f"), flags)


EMAIL = re.compile(r"(?<![\w.+-])[\w+-][\w.+-]{0,63}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
IBAN = spaced(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}")
CARD = spaced(
    r"(?<![\w+-])(?<!\d[.,])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}(["
    r" -])\d{6}\2\d{4,5})(?!\w|[.,-]\d)"
)
V4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
V6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4})?(?![\w:])")
PHONE = spaced(  # the first alternative: +49 30 1234567, +1 (415) 555-2671
    r"""(?<![\w+-])(?<!\d[ .,:/])(?:
    \+[1-9]\d{0,3}(?:[ .-]?\(\d{1,5}\))?[ ./-]?+\d{1,12}+(?:[ ./-]?+\d{2,12}+){0,6}+
    | 00[1-9]\d{0,2}(?:[ /-]\d{2,8}){2,5}                                  # 0049 30 1234567
    | (?:1[ .-])?(?:\([2-9]\d\d\)[ ]?|[2-9]\d\d(?P<by>[.-]))
      [2-9]\d\d(?(by)(?P=by)|[ .-])\d{4}                                    # (415) 555-2671
    | \(0\d{1,4}\)[ ]?\d{2,8}(?:[ -]\d{2,8}){0,4}                          # (030) 1234567
    | 0[1-9]\d{0,3}(?:[ /-]\d{2,8}){1,4}                                   # 030 1234567
    )(?!\w|[-.,:/+]\d|[ ]?[=*^][ ]?\d|[ ]\d)""",
    re.VERBOSE,
)


class Redactor:
    """Replaces personal data in texts and in containers of texts.

    `counts` holds the number of replacements by the names of MARKS.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def text(self, text: str) -> str:
        for kind, pattern, part_of in RULES:
            text = pattern.sub(partial(self._mark_part, kind, part_of), text)
        return text

    def _mark_part(
        self, kind: str, part_of: Callable[[re.Match[str]], str], match: re.Match[str]
    ) -> str:
        """Return a match with its part replaced by the mark of this kind.

        `part_of` returns the beginning of the match that is of this kind; "" leaves the match
        unchanged.
        """
        part = part_of(match)
        if not part:
            return match[0]
        self.counts[kind] += 1
        return MARKS[kind] + match[0][len(part) :]

    @overload
    def all_of(self, value: Mapping[str, Any]) -> dict[str, Any]: ...

    @overload
    def all_of(self, value: object) -> object: ...

    def all_of(self, value: object) -> object:
        """Return the value with every text in it redacted.

        Keys of objects and data URLs (pictures) stay as they are.
        """
        if isinstance(value, str):
            return value if value.startswith("data:") else self.text(value)
        if isinstance(value, Mapping):
            return {name: self.all_of(item) for name, item in value.items()}
        return (
            [self.all_of(item) for item in value]
            if isinstance(value, Sequence) and not isinstance(value, bytes)
            else value
        )

    @property
    def words(self) -> str:
        """Return the counts as text, or that no personal data was found."""
        return (
            ", ".join(f"{self.counts[kind]} {kind}" for kind in MARKS if self.counts[kind])
            or "no personal data found"
        )


# -- decide whether a match is personal data


def _whole_match(match: re.Match[str]) -> str:
    return match[0]


def _iban(match: re.Match[str]) -> str:
    """Return the valid IBAN at the beginning of a match, or "".

    The rest of the match may be the next word.
    """
    text = match[0]
    length = IBANS.get(text[:2].upper(), 0)
    ends = [at for at, sign in enumerate(text, start=1) if sign.isalnum()]
    if not length or len(ends) < length:
        return ""
    end = ends[length - 1]
    following = text[end : end + 1] or match.string[match.end() : match.end() + 1]
    if following.isalnum():
        return ""
    signs = re.sub(r"\W", "", text[:end]).upper()
    number = int("".join(str(int(sign, 36)) for sign in signs[4:] + signs[:4]))
    return text[:end] if number % 97 == 1 else ""


def _card(match: re.Match[str]) -> str:
    digits = re.sub(r"\W", "", match[0])
    return match[0] if CARDS.fullmatch(digits) and luhn(digits) else ""


def luhn(digits: str) -> bool:
    """Tell whether the digits pass Luhn's check.

    Every second digit from the right is doubled and its own digits added; the sum must be a
    multiple of ten.
    """
    return (
        sum(
            sum(divmod(int(digit) * (1 + place % 2), 10))
            for place, digit in enumerate(reversed(digits))
        )
        % 10
        == 0
    )


def _address(match: re.Match[str]) -> str:
    """Return the IP address in a match; "" for loopback, versions, slices of lists and times."""
    before = match.string[max(0, match.start() - LOOKED_BACK) : match.start()]
    try:
        address = ipaddress.ip_address(match[0])
    except ValueError:
        return ""
    if (
        address.is_loopback
        or address.is_unspecified
        or (address.version == 4 and VERSION.search(before))
    ):
        return ""
    if address.version == 6 and not (
        any(map(str.isdigit, match[0])) and max(map(len, match[0].split(":"))) > 2
    ):
        return ""
    return match[0]


def _phone(match: re.Match[str]) -> str:
    text = match[0]
    digits = re.sub(r"\D", "", text)
    min_digits, max_digits = (8, 15) if text.startswith(("+", "00")) else (9, 12)
    is_number = re.fullmatch(r"\+(\d+\.\d+|\d{1,3}(\.\d{3})+)", text) is not None
    if (
        not min_digits <= len(digits) <= max_digits
        or is_number
        or DATE.match(text)
        or not set(digits) - set("01")
    ):
        return ""
    before = match.string[max(0, match.start() - LOOKED_BACK) : match.start()]
    is_listed = NUMBERS.search(before) is not None and OF_PHONES.search(before) is None
    if not text.startswith(("+", "(", "00")) and (_is_series(text) or is_listed):
        return ""
    return text


def _is_series(text: str) -> bool:
    """Tell whether the numbers follow a rule, like those of a task.

    Examples: 05 10 15 20, 03 06 12 24, 09 16 25 36.
    """
    terms = [int(part) for part in re.findall(r"\d+", text)]
    if len(terms) < MIN_TERMS:
        return False
    steps = [later - earlier for earlier, later in pairwise(terms)]
    seconds = [later - earlier for earlier, later in pairwise(steps)]
    is_geometric = all(earlier * terms[1] == later * terms[0] for earlier, later in pairwise(terms))
    is_sum_of_two = steps[1:] == terms[:-2]
    are_primes = min(steps) > 0 and all(_is_prime(term) for term in terms)
    return (
        len(set(steps)) == 1
        or len(set(seconds)) == 1
        or is_geometric
        or is_sum_of_two
        or are_primes
    )


def _is_prime(number: int) -> bool:
    return 1 < number < 1000 and all(
        number % divisor for divisor in range(2, math.isqrt(number) + 1)
    )


RULES: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    ("e-mail addresses", EMAIL, _whole_match),
    ("IBANs", IBAN, _iban),
    ("card numbers", CARD, _card),
    ("IP addresses", V4, _address),
    ("IP addresses", V6, _address),
    ("telephone numbers", PHONE, _phone),
)
