"""Bring the many spellings of a formula to plain LaTeX without decoration."""

import re
from fractions import Fraction
from functools import cache

from apps.rewards.mathematics import bases, unit_names

_SIGNS: dict[str, str | int] = {
    "×": r"\times ",
    "·": r"\cdot ",
    "⋅": r"\cdot ",
    "∙": r"\cdot ",
    "÷": r"\div ",
    "−": "-",
    "–": "-",
    "—": "-",
    "‐": "-",
    "‑": "-",
    "√": r"\sqrt ",
    "∛": r"\cbrt ",
    "π": r"\pi ",
    "∞": r"\infty ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≦": r"\le ",
    "≧": r"\ge ",
    "⩽": r"\le ",
    "⩾": r"\ge ",
    "≠": r"\ne ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∈": r"\in ",
    "±": r"\pm ",
    "∓": r"\mp ",
    "°": r"^\circ ",
    "º": r"^\circ ",
    "½": r" \frac{1}{2}",
    "¼": r" \frac{1}{4}",
    "¾": r" \frac{3}{4}",
    "¢": r" \text{ cents}",
    "⅓": r" \frac{1}{3}",
    "⅔": r" \frac{2}{3}",
    "⅕": r" \frac{1}{5}",
    "⅛": r" \frac{1}{8}",
    "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}",
    "ℚ": r"\mathbb{Q}",
    "ℂ": r"\mathbb{C}",
    "’": "'",
    "′": "'",
    "″": "''",
    "≈": r"\approx ",
    "≅": r"\approx ",
    "≡": r"\equiv ",
    "∖": r"\setminus ",
    "→": r"\to ",
    "∠": r"\angle ",
    "△": r"\triangle ",
    "Δ": r"\Delta ",
    "Σ": r"\Sigma ",
    "Ω": r"\Omega ",
    "∣": "|",
    "∥": r"\|",
    "∕": "/",
    "⁄": "/",
    "∶": ":",
    "。": ".",
    "、": ",",
    "｡": ".",
    "､": ",",
    "【": "[",
    "】": "]",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "〈": "(",
    "〉": ")",
    "…": r"\ldots ",
    "⋯": r"\ldots ",
    "「": "",
    "」": "",
    "\u00a0": " ",
    "\u202f": " ",
    "\u2009": " ",
    "\u2002": " ",
    "\u2003": " ",
    "\u3000": " ",
    "\x00": "",
    "\u200b": "",
    "\ufeff": "",
    "ﬁ": "fi",
    **dict(
        zip(
            "αβγδεζηθικλμνξρστυφχψω",
            (
                r"\alpha ",
                r"\beta ",
                r"\gamma ",
                r"\delta ",
                r"\epsilon ",
                r"\zeta ",
                r"\eta ",
                r"\theta ",
                r"\iota ",
                r"\kappa ",
                r"\lambda ",
                r"\mu ",
                r"\nu ",
                r"\xi ",
                r"\rho ",
                r"\sigma ",
                r"\tau ",
                r"\upsilon ",
                r"\phi ",
                r"\chi ",
                r"\psi ",
                r"\omega ",
            ),
            strict=True,
        )
    ),
}
_POWERS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n", strict=True))
_INDICES = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
# Digits of Arabic, Persian, Hindi, Bengali and Thai, with the decimal signs of Arabic.
_OTHER_DIGITS = {
    zero + digit: str(digit) for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50) for digit in range(10)
} | {0x66B: ".", 0x66C: "", **{0x1D7CE + place: str(place % 10) for place in range(50)}}
CURRENCIES = {
    "€": "euro",
    "£": "pound_sterling",
    "¥": "yen",
    "￥": "yen",
    "₹": "rupee",
    "₽": "ruble",
    "₩": "won",
    r"\euro": "euro",
    r"\pounds": "pound_sterling",
    r"\usd": "dollar",
    r"\dollar": "dollar",
}

# Money whose name or country stands before the number: US$7, Rs. 7, EUR 7.
_MONEY_NAMES = {
    "US$": r"\$",
    "U.S.$": r"\$",
    "USD": r"\$",
    "EUR": "€",
    "GBP": "£",
    "RS": "₹",
    "INR": "₹",
    "JPY": "¥",
}
_MONEY_BEFORE = re.compile(
    r"^([-$]?)(US\s?\\?\$|U\.S\.\\?\$|USD|EUR|GBP|Rs\.?|INR|JPY)\s?(?=\d)", re.I
)
# Functions that are set as text are functions; sec and min may be units there.
_OPERATOR = re.compile(
    r"\\(?:operatorname\*?\s?\{\s?(?=[a-zA-Z]{2,6}\s?\})"
    r"|(?:mathrm|text)\s?\{\s?(?=(?:arc)?(?:sin|cos|tan)"
    r"\b|ln\b|log\b))"
    r"((?:arc)?(?:sin|cos|tan)|cot|sec|csc|sinh|cosh|tanh|ln|log|exp|gcd|lcm|max|min)\s?\}"
)
_OVER = re.compile(r"\{([^{}]{1,60})\\over(?![a-z])\s?([^{}]{1,60})\}")
_NUMBER_SET = re.compile(r"\\(?:mathbf|boldsymbol|bm)\s?\{\s?([RZNQ])\s?\}")
# Decorations that say nothing: sizes of brackets, styles, spaces, colours.
_GONE = re.compile(
    r"\\(?:left|right|bigl|bigr|Bigl|Bigr|biggl|biggr|Biggl|Biggr|big|Big|bigg|Bigg|displaystyle"
    r"|textstyle|scriptstyle|limits|nolimits|mathstrut|boldmath|large|Large|small|normalsize"
    r"|middle|bf|rm|it|sf|tt)(?![a-zA-Z])(?:\.(?=\s|\\|$))?"
    r"|\\(?:hspace|vspace|hskip|phantom|label|tag|color)\*?\s?\{[^{}]{0,80}\}"
    r"|(?<!\\)\\!\s*|(?<!\\)\\[,:;>]"
)
_SPACES = re.compile(r"\\q?quad|\\(?:enspace|thinspace|medspace)(?![a-zA-Z])|(?<!\\)\\ |~")
# A set of all x, in braces that do not show in LaTeX.
_BUILDER = re.compile(r"^\{(\s?[a-z]\s?(?:\\in\s?\\mathbb\{R\}\s?)?[|:][^{}]{1,200})\}$")
_DELIMITERS = re.compile(r"(?<!\\)\\[()\[\]](?![a-zA-Z]*pt\])")
# Commands whose last argument is all that they say.
_WRAPPERS = re.compile(
    r"\\(?:boxed|fbox|framebox|textcolor\s?\{[^{}]{0,40}\}|colorbox\s?\{[^{}]{0,40}\}|underline"
    r"|mathop|ensuremath|bold|mathbf|boldsymbol|bm|pmb|mathbit|underbrace|overbrace|mathclap"
    r"|cancel|emphbox|mathord|mathrel|mathbin)\s*(?=\{)"
)
_TEXT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|sc|normal|up|md)?|mathrm|mathit|mathsf|mathtt|mathnormal|mbox"
    r"|hbox|emph|rm|operatorname)\*?\s*\{"
)
_PLAIN_TEXT = re.compile(r"[\d\s.,;:()\[\]+\-*/=<>%$]{0,200}|\(?\s?[A-Za-z]\s?\)?\s?")
_UNIT_BEFORE = re.compile(r"[\d})]\s?$")
_BASE_VECTOR = re.compile(
    r"\\(?:mathbf|boldsymbol|bm|hat|vec)\s?\{?\s?\\?([ijk])(?:math)?(?![a-z])\s?\}?"
)
_SAME = (
    (re.compile(r"\\Pr(?![a-zA-Z])"), "P"),
    (re.compile(r"\\(?:dfrac|tfrac|cfrac|nicefrac|sfrac|flatfrac)(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\(?:dbinom|tbinom)(?![a-zA-Z])"), r"\\binom"),
    (re.compile(r"\\(?:leqslant|leq|leqq)(?![a-zA-Z])|<=|=<"), r"\\le "),
    (re.compile(r"\\(?:geqslant|geq|geqq)(?![a-zA-Z])|>="), r"\\ge "),
    (re.compile(r"\\neq(?![a-zA-Z])|\\not\s?=|!=|<>|/="), r"\\ne "),
    (re.compile(r"\\lt(?![a-zA-Z])"), "<"),
    (re.compile(r"\\gt(?![a-zA-Z])"), ">"),
    (re.compile(r"==|:="), "="),
    (re.compile(r"\\lbrace(?![a-zA-Z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\lbrack(?![a-zA-Z])"), "["),
    (re.compile(r"\\rbrack(?![a-zA-Z])"), "]"),
    (re.compile(r"\\(?:[lr]vert|vert|mid)(?![a-zA-Z])"), "|"),
    (re.compile(r"\\(?:varnothing|empty)(?![a-zA-Z])"), r"\\emptyset "),
    (re.compile(r"\\colon(?![a-zA-Z])"), ":"),
    (re.compile(r"\\(?:backslash|smallsetminus)(?![a-zA-Z])"), r"\\setminus "),
    (re.compile(r"\\(?:mathbb|mathbf|Bbb)\s?\{?\s?([RZNQC])\s?\}?(?![a-zA-Z])"), r"\\mathbb{\1}"),
    (re.compile(r"\\(?:simeq|doteq|thickapprox|cong)(?![a-zA-Z])|~="), r"\\approx "),
    (re.compile(r"\\(?:rightarrow|longrightarrow)(?![a-zA-Z])"), r"\\to "),
    (re.compile(r"\\(?:dots|cdots|dotsc|dotsb|dotso)(?![a-zA-Z])|\.\.\."), r"\\ldots "),
    (re.compile(r"\\(?:overrightarrow)(?![a-zA-Z])"), r"\\vec"),
    (
        re.compile(
            r"\^\s?\{?\s?\\(?:circ|degree|deg)(?![a-zA-Z])\s?\}?|\\degree(?![a-zA-Z])"
            r"|(?<=\d)\^(?:\{\s?o\s?\}|o(?![a-zA-Z]))"
        ),
        r"\\degree ",
    ),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<=\d) times (?=[\d(\\])|(?<=\d)\s?[xX]\s?(?=10\s?\^)"), r" \\times "),
    (re.compile(r"\+/-|\+-(?=\s?\d)|\bplus or minus\s(?=\d)"), r"\\pm "),
)
_COMMAND_BEFORE = re.compile(r"\\[a-zA-Z]+$")
_PERCENT = re.compile(
    r"(?<=[\d}])\s?(?:\\text\s?\{\s?)?(?:percent(?:age)?|per cent|pct|Prozent|pour ?cent"
    r"|por ?ciento|por ?cento|per ?cento|процент(?:а|ов)?|パーセント)\b\s?\}?",
    re.I,
)
_PERCENT_IN_CHINESE = re.compile(r"百分之\s?(\d{1,9}(?:\.\d{1,9})?)")
_OUT_OF = re.compile(r"^(\d{1,9}) (?:in|out of) (\d{1,9})$")
_INFINITE = re.compile(
    r"^(?:\\text\s?\{\s?)?(?:(negative\s|minus\s|-)|positive\s|plus\s|\+)?infinity\s?\}?$", re.I
)
_CHOOSE = re.compile(
    r"\{\s?([^{}]{1,40}?)\s?\\choose\s?([^{}]{1,40})\}|(?<![^\W_])(\w{1,9})\schoose\s(\w{1,9})"
    r"(?!\w)"
)
# Equations in a brace; what has a condition behind each line is a function.
_CASES = re.compile(r"\\begin\{cases\}([^&]{1,300})\\end\{cases\}")
_SCALE = re.compile(
    r"(?<=\d)\s?(?:\\text\s?\{\s?)?"
    r"(thousand|millions?|billion|trillion|millionen|mio|millones|milliarden?|milliards?"
    r"|тысяч[аи]?|тыс|млн|миллион(?:а|ов)?|млрд|миллиард(?:а|ов)?)\b\s?(?:\}|(?=[^}]|$))",
    re.I,
)
_SCALE_IN_CJK = re.compile(r"(?<=\d)\s?([万萬亿億])")
_SCALES = (
    (re.compile(r"thousand|ты", re.I), 3),
    (re.compile(r"billion|milliard|млрд|миллиард", re.I), 9),
    (re.compile(r"trillion", re.I), 12),
    (re.compile(r"mi|м", re.I), 6),
)
_REPEATING = re.compile(
    r"(?<![\d.])(\d{0,20})\.(\d{0,20})"
    r"(?:\\overline\s?\{(\d{1,20})\}|\\dot\s?\{?(\d)\}?(?:(\d{0,18})\\dot\s?\{?(\d)\}?)?"
    r"|\((\d{1,20})\)(?!\s?[\d(]))"
)
_GOES_ON = re.compile(r"(?<![\d.])(\d{0,20})\.(\d{2,40})\s?\\ldots(?![a-zA-Z])")
_BAR = re.compile(r"(?<=[\d.])\s?\\bar\s?(?:\{\s?(\d{1,20})\s?\}|(\d))")
_DOTS_AND_COMMA = re.compile(r"(?<![\d.,])(\d{1,3}(?:[. ]\d{3})+),(\d{1,12})(?![\d.,])")
_DOTS = re.compile(r"(?<![\d.,])(\d{1,3})((?:\.\d{3}){2,8})(?![\d.,])")
_BASED_IN_BRACKETS = re.compile(r"\((\w{1,40})\)(?=_)")
_OVERLINED = re.compile(r"(?:[0-9]\u0305){1,20}")
_FEET = re.compile(r"(?<![\w'])(\d{1,3})'\s?(\d{1,2})(?:''|\")")
_ARC = re.compile(
    r"(\d{1,3})\s?\\degree\s{0,2}(\d{1,2})\s?(?:'|\^\s?\{?\s?\\prime\s?\}?)(?!')"
    r"(?:\s?(\d{1,2})\s?(?:''|\"|\^\s?\{\s?\\prime\s?\\prime\s?\}))?"
)
_TO = re.compile(r"(?<=\d)\s?(?:\\text\s?\{\s?to\s?\}|(?<=\s)to(?=\s))\s?(?=\d)")
_CJK_UNIT = re.compile(r"(?<=[\d}])\s{0,3}([\u3040-\u30ff\u3400-\u9fff]{1,6})$")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:,\d{3})+)(?![\d,])")
_THOUSANDS_OF_SPACES = re.compile(r"(?<![\d.,])(\d{1,3})((?: \d{3})+)(?![\d,])")
_MIXED = re.compile(
    r"(?<![\d.^_{/}])(\d{1,15})"
    r"(?:\s{1,3}(\d{1,9})\s?/\s?(\d{1,9})(?![\d.])"
    r"|\s?\\frac\s?\{\s?(\d{1,9})\s?\}\s?\{\s?(\d{1,9})\s?\}(?!\s?\())"
)


_NOT_SEVERAL = re.compile(
    r"^([a-z])\s?\\ne(?:q(?![a-z]))?\s?(-?[\w\\{}/. ]{1,40}(?:,\s?-?[\w\\{}/. ]{1,40}){1,5})$"
)


def _as_sign(match: re.Match) -> str:
    return match[1] + _MONEY_NAMES[match[2].rstrip(".").replace("\\", "").upper()]


@cache
def _table() -> dict[int, str | int]:
    return {**_FULL_WIDTH, **_OTHER_DIGITS, **str.maketrans(_SIGNS), ord("￥"): "¥"}


def clean(text: str) -> str:
    """Return plain LaTeX of the same meaning."""
    if "\\begin" not in text:
        text = text.replace("\\\\", "\\")  # escaped twice
    text = _scripts(_OVERLINED.sub(_overlined, text.translate(_table())))
    text = _MONEY_BEFORE.sub(_as_sign, text.strip().strip("*`").strip())
    text = _DELIMITERS.sub(" ", _without_dollars(text))
    text = _OVER.sub(r"\\frac{\1}{\2}", _OPERATOR.sub(r"\\\1 ", text))
    text = _NUMBER_SET.sub(r"\\mathbb{\1}", text)
    text = re.sub(r"(?<=[a-zA-Z])\\[,:;](?=[a-zA-Z])", " ", text)  # m\,s is no ms
    text = _SPACES.sub(" ", _GONE.sub("", text))
    if len(set(_BASE_VECTOR.findall(text))) > 1:  # one alone may be the imaginary unit
        text = _BASE_VECTOR.sub(r"\\vec{\1}", text)
    text = _text_commands(_WRAPPERS.sub("", text))
    for pattern, better in _SAME:
        text = pattern.sub(better, text)
    text = _PERCENT.sub("%", _PERCENT_IN_CHINESE.sub(r"\1%", text))
    text = _CHOOSE.sub(_binomial, _CASES.sub(_listed, _OUT_OF.sub(r"\\frac{\1}{\2}", text)))
    text = _INFINITE.sub(lambda match: "-\\infty " if match[1] else "\\infty ", text)
    text = _SCALE.sub(_scaled, text)
    text = _SCALE_IN_CJK.sub(_scaled_in_cjk, text)
    text = re.sub(r"(?<=\d)\s?\{,\s?\}\s?(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d)\{,\}(?=\d)", ".", text)
    text = re.sub(r"(?<=\d)_(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"\\frac\s?(\d)\s?(\d)(?!\d)", r"\\frac{\1}{\2}", text)
    text = _FEET.sub(r"\1 ft \2 in", _BASED_IN_BRACKETS.sub(r"\1", text))
    text = _NOT_SEVERAL.sub(_each_not_equal, bases.with_indices(text.replace("^{}", "")))
    text = _TO.sub(":", _ARC.sub(_arc, text))
    text = _BUILDER.sub(r"\\{\1\\}", text)
    text = unit_names.in_english(_CJK_UNIT.sub(r"\\text{\1}", text))
    return " ".join(_repeating(_BAR.sub(_barred, text)).split())


def _overlined(match: re.Match) -> str:
    return rf"\overline{{{match[0][::2]}}}"


def _each_not_equal(match: re.Match) -> str:
    """Write x ≠ 0, 1 as x ≠ 0 and x ≠ 1."""
    name = match[1]
    return " \\text{ and } ".join(f"{name} \\ne {value.strip()}" for value in match[2].split(","))


def _scaled(match: re.Match) -> str:
    power = next(power for form, power in _SCALES if form.match(match[1]))
    return f" \\times 10^{{{power}}}"


def _scaled_in_cjk(match: re.Match) -> str:
    return rf" \times 10^{{{4 if match[1] in '万萬' else 8}}}"


def _binomial(match: re.Match) -> str:
    top, bottom = match[1] or match[3], match[2] or match[4]
    return rf"\binom{{{top}}}{{{bottom}}}"


def without_cases(text: str) -> str:
    """Write equations in a brace as a list."""
    return _CASES.sub(_listed, text)


def _listed(match: re.Match) -> str:
    return ", ".join(re.split(r"\\\\(?:\[[^\]]{0,9}\])?", match[1].strip().removesuffix("\\\\")))


def _barred(match: re.Match) -> str:
    return rf"\overline{{{match[1] or match[2]}}}"


def _arc(match: re.Match) -> str:
    """Write degrees, minutes and seconds of arc as a fraction of degrees."""
    whole = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)
    return f"\\frac{{{whole}}}{{3600}}\\degree "


def _scripts(text: str) -> str:
    """Write raised and lowered digits as LaTeX does."""
    text = re.sub(
        "[" + "".join(_POWERS) + "]+",
        lambda run: "^{" + "".join(_POWERS[sign] for sign in run.group()) + "}",
        text,
    )
    return re.sub(
        "[" + "".join(_INDICES) + "]+",
        lambda run: "_{" + "".join(_INDICES[sign] for sign in run.group()) + "}",
        text,
    )


def _without_dollars(text: str) -> str:
    """Remove the dollar signs of mathematics, and keep those of money as `\\usd`.

    A closing dollar of mathematics has no blank before it and no digit behind it.
    """
    text = text.replace("\\$", "\\usd ")
    if "$" not in text:
        return text
    pieces = text.replace("$$", "$").split("$")
    parts = [pieces[0]]
    inside = False
    for place, piece in enumerate(pieces[1:], start=1):
        before = pieces[place - 1]
        is_last = place == len(pieces) - 1
        opens_money = piece[:1].isdigit() and (is_last or before[-1:] in ("", " ", "-", ",", "("))
        if inside:
            is_money = piece[:1].isdigit() and before.endswith(" ")
            inside = False
        elif is_last:
            is_money = opens_money or before.rstrip()[-1:].isdigit()
        else:
            closing = pieces[place + 1]
            is_money = opens_money and closing[:1].isdigit() and piece.endswith(" ")
            inside = not is_money
        parts.append("\\usd " if is_money else " ")
        parts.append(piece)
    return "".join(parts)


def _text_commands(text: str) -> str:
    """Write all text commands as `\\text{…}`, and remove them around numbers and letters."""
    text = _TEXT.sub(lambda _: "\\text{", text)
    pieces = text.split("\\text{")
    result = pieces[0]
    for piece in pieces[1:]:
        inside, closed, after = piece.partition("}")
        if "{" in inside or not closed:
            result += "\\text{" + piece
        elif _says_formula(inside, result):
            gap = " " if _COMMAND_BEFORE.search(result[-20:]) else ""  # \cdot and s are no \cdots
            result += f"{gap}{inside.strip()}{after}"
        else:
            result += f"\\text{{{inside}}}{after}"
    return result


def _says_formula(inside: str, before: str) -> bool:
    """Tell numbers, signs and single letters, which may stand in text, from words and units."""
    if not _PLAIN_TEXT.fullmatch(inside) or not inside.strip():
        return False
    letter = inside.strip()
    return letter in ("e", "i", "d") or not (letter.isalpha() and _UNIT_BEFORE.search(before[-3:]))


def _repeating(text: str) -> str:
    """Write repeating decimals as fractions: 0.\\overline{3}, 0.(3) and 0.333… are (1/3)."""

    def marked(match: re.Match) -> str:
        period = match[3] or match[7] or f"{match[4]}{match[5] or ''}{match[6] or ''}"
        return _fraction(match[1], match[2], period)

    def going_on(match: re.Match) -> str:
        digits = match[2]
        for length in range(1, len(digits) // 2 + 1):
            least = 2
            period = digits[-length:]
            if digits.endswith(period * least):
                start = len(digits)
                while digits[:start].endswith(period):
                    start -= length
                return _fraction(match[1], digits[:start], period)
        return f"{match[1]}.{digits}"

    return _GOES_ON.sub(going_on, _REPEATING.sub(marked, text))


def _fraction(whole: str, fixed: str, period: str) -> str:
    value = Fraction(int((whole or "0") + fixed or "0"), 10 ** len(fixed))
    value += Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))
    return f"({value.numerator}/{value.denominator})"


def without_thousands(text: str) -> str:
    """Write 1,000 and 1 000 as 1000. A pair in brackets, as (100,200), has no thousands."""

    def joined(match: re.Match) -> str:
        return match.group() if _is_pair(text, match) else match.group().replace(",", "")

    text = _DOTS.sub(lambda match: match.group().replace(".", ""), text)
    text = _DOTS_AND_COMMA.sub(_with_point, text)
    text = _THOUSANDS.sub(joined, text)
    return _THOUSANDS_OF_SPACES.sub(lambda match: match.group().replace(" ", ""), text)


def _with_point(match: re.Match) -> str:
    """Write 1.234,5 as 1234.5."""
    return f"{match[1].replace('.', '').replace(' ', '')}.{match[2]}"


def _is_pair(text: str, match: re.Match) -> bool:
    before = text[: match.start()].rstrip()
    after = text[match.end() :].lstrip()
    return before.endswith(("(", "[", "{")) and after.startswith((")", "]", "\\}"))


def with_mixed_numbers(text: str) -> str:
    """Write 2 1/2 as (5/2), if the second part is a proper fraction."""

    def whole(match: re.Match) -> str:
        number = int(match[1])
        top = int(match[2] or match[4])
        bottom = int(match[3] or match[5])
        if not top < bottom:
            return match.group()
        return f"({number * bottom + top}/{bottom})"

    return _MIXED.sub(whole, text)
