"""Write chemical formulas from LaTeX, HTML and Unicode with one set of signs.

Small digits become digits, charges «2+», mass numbers ⟨14⟩, points of hydrates ·, and all arrows
with a word on them ->.
"""

import re

SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋−–", "0123456789+---")
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True))
_FRACTIONS = {"½": "1/2 ", "¼": "1/4 ", "¾": "3/4 ", "⅓": "1/3 ", "⅔": "2/3 "}
_HTML_MARKS = {"<sub>": "_{", "</sub>": "}", "<sup>": "^{", "</sup>": "}"}
_FRACTION = re.compile("[" + "".join(_FRACTIONS) + "]")
_HIGH_RUN = re.compile("[" + "".join(SUPERSCRIPTS) + "]+")
_HTML = re.compile(r"</?su[bp]>", re.I)
_TEXT = re.compile(r"\\(?:ce|text|mathrm|mathbf|rm|textrm)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
DEEPEST_TEXT = 3  # commands for text within each other
# The mass number before an element, with or without its charge number: ^{14}C, ^{14}_6C, _6^{14}C.
_MASS = r"\^\s?\{?\s?(\d{1,3})\s?\}?\s?"
_NUMBER = r"_\s?\{?\s?\d{1,3}\s?\}?\s?"
_ISOTOPE = re.compile(rf"{_MASS}(?:{_NUMBER})?(?=[A-Z])|{_NUMBER}{_MASS}(?=[A-Z])")
_CHARGE = re.compile(r"\^\s*\{\s*(\d*)\s*([+-])\s*\}|\^\s*(\d*)([+-])")
# Replacements before LaTeX's text commands are removed, and after that.
_BEFORE = (
    (re.compile(r"\$|\\,|\\left(?=[(\[])|\\right(?=[)\]])"), ""),
    (re.compile(r"\\;"), " "),
    (re.compile(r"(?<=\S)\s?[↑⬆](?=\s|$)"), "(g)"),
    (re.compile(r"(?<=\S)\s?[↓⬇](?=\s|$)"), "(s)"),
    (re.compile(r"--\s?[a-zA-Zα-ωΔ°, ]{1,30}\s?--?>"), "->"),
    (re.compile(r"\\xrightarrow(?:\[[^\]]*\])?\{[^{}]*\}"), "->"),
)
_AFTER = (
    # The sign of a charge before its number: ^{-2}, ^-2, and (2-) or -2 at the end.
    (re.compile(r"\^\s*\{\s*([+-])\s*(\d+)\s*\}|«([+-])»(\d+)(?!\w)"), r"«\2\4\1\3»"),
    (
        re.compile(r"(?<=[A-Za-z0-9)\]])(?:\((\d?)([+-])\)|([+-])(\d))(?=\s|$|\()"),
        r"«\1\4\2\3»",
    ),
    (re.compile(r"\\(?:cdot|bullet|ast)|[·•∙⋅*]"), "·"),
    (re.compile(r"(?<=[A-Za-z)\]]\d)\.(?=\d*H2O)|(?<=[A-Za-z)\]]\d\d)\.(?=\d*H2O)"), "·"),
    (re.compile(r"(?<=[A-Za-z)])\.(?=\d*[A-Z])"), "·"),
)


# The atomic number beside a mass number, which the element tells: ⁴₂He, _2^4He.
_SMALL_NUMBER = re.compile(r"([⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})[₀-₉]{1,3}(?=[A-Z])")
_NUMBER_FIRST = re.compile(r"(?<![A-Za-z)\]}])_\{?\d{1,3}\}?(\^\{?\d{1,3}\}?)(?=[A-Z])")


def in_plain_signs(text: str) -> str:
    """Return the formula with the signs of this module, and nothing of LaTeX or HTML."""
    text = _FRACTION.sub(lambda sign: _FRACTIONS[sign.group()], text)
    text = _NUMBER_FIRST.sub(r"\1", _SMALL_NUMBER.sub(r"\1", text))
    text = _HIGH_RUN.sub(_superscript, text).translate(SUBSCRIPTS)
    text = _HTML.sub(lambda tag: _HTML_MARKS[tag.group().lower()], text)
    for pattern, plain in _BEFORE:
        text = pattern.sub(plain, text)
    for _ in range(DEEPEST_TEXT):
        text = _TEXT.sub(r"\1", text)
    text = _ISOTOPE.sub(lambda match: f"⟨{match[1] or match[2]}⟩", text)
    text = re.sub(r"_\s*+\{?\s*+(\d+)\s*+\}?", r"\1", text)
    text = _CHARGE.sub(_charge, text)
    for pattern, plain in _AFTER:
        text = pattern.sub(plain, text)
    return without_bonds(text.strip().rstrip(".,;").strip())


def without_bonds(text: str) -> str:
    """Take away the bonds of a condensed formula: CH2=CH2, CH3-COOH. They are no "=" of an
    equation and no charge.
    """
    if text.count("C") < 2 or re.search(r"[+→>\s]", text):
        return text
    return re.sub(r"(?<=[A-Za-z\d()])[=≡-](?=[A-Z(])", "", text)


def _superscript(run: re.Match) -> str:
    return "^{" + "".join(SUPERSCRIPTS[sign] for sign in run.group()) + "}"


def _charge(match: re.Match) -> str:
    return f"«{match[1] or match[3] or ''}{match[2] or match[4]}»"
