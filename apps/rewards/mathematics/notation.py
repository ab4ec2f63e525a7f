"""One way of writing: the many spellings of the same formula brought to plain LaTeX without decoration."""

import re
from functools import cache

_SIGNS = {
    "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": "/", "−": "-", "–": "-", "—": "-", "＝": "=",
    "√": r"\sqrt ", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "±": r"\pm ", "°": r"^\circ ", "½": r" \frac{1}{2}", "¼": r" \frac{1}{4}",
    "¾": r" \frac{3}{4}", "⅓": r" \frac{1}{3}", "⅔": r" \frac{2}{3}", "％": "%", "，": ",", "（": "(", "）": ")",
    "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "’": "'", "≈": r"\approx ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ",
    "λ": r"\lambda ", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\x00": "",
}  # fmt: skip
_POWERS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n", strict=True))
_GONE = re.compile(
    r"\\(?:left|right|bigl|bigr|Bigl|Bigr|biggl|biggr|big|Big|bigg|Bigg|displaystyle|textstyle|limits|nolimits|mathstrut)(?![a-zA-Z])\.?"
    r"|\\(?:hspace|vspace|phantom|label|tag)\*?\{[^{}]*\}|(?<!\\)\\[,!:;>]"
)
_SPACES = re.compile(r"\\(?:quad|qquad|enspace|thinspace)(?![a-zA-Z])|(?<!\\)\\ |~")
_SAME = (
    (re.compile(r"\\(?:dfrac|tfrac|cfrac|nicefrac|sfrac)(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\(?:dbinom|tbinom)(?![a-zA-Z])"), r"\\binom"),
    (re.compile(r"\\(?:leqslant|leq|leqq)(?![a-zA-Z])|<="), r"\\le "),
    (re.compile(r"\\(?:geqslant|geq|geqq)(?![a-zA-Z])|>="), r"\\ge "),
    (re.compile(r"\\(?:neq|not\s*=)(?![a-zA-Z])|!="), r"\\ne "),
    (re.compile(r"\\lt(?![a-zA-Z])"), "<"), (re.compile(r"\\gt(?![a-zA-Z])"), ">"), (re.compile(r"=="), "="),
    (re.compile(r"\\(?:lbrace)(?![a-zA-Z])"), r"\\{"), (re.compile(r"\\(?:rbrace)(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\(?:lbrack)(?![a-zA-Z])"), "["), (re.compile(r"\\(?:rbrack)(?![a-zA-Z])"), "]"),
    (re.compile(r"\\(?:[lr]vert|vert|mid)(?![a-zA-Z])"), "|"), (re.compile(r"\\(?:varnothing)(?![a-zA-Z])"), r"\\emptyset"),
    (re.compile(r"\\(?:operatorname|mathrm|mathbf|mathit|mathsf|boldsymbol|bm)\*?\{\s*([eid])\s*\}"), r"\1"),
    (re.compile(r"(?<![\d} ])\\(?:operatorname|mathrm|mathbf|mathit|mathsf|boldsymbol|bm)\*?\{\s*(\\?[a-zA-Z])\s*\}"), r"\1"),
    (re.compile(r"\\operatorname\*?\{\s*([a-zA-Z]+)\s*\}"), r"\\\1 "),
    (re.compile(r"\\(?:text|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathit|mathsf|mbox|hbox)\s*\{"), r"\\text{"),
    (re.compile(r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\degree(?![a-zA-Z])"), r"\\degree "),
    (re.compile(r"\\%|%"), "%"), (re.compile(r"(?i)(?<=\d)\s*(?:percent|per cent|pct)\b"), "%"),
    (re.compile(r"(?i)(?<=\d)\s*\\text\{\s*(?:percent|per cent|pct|%)\s*\}"), "%"),
    (re.compile(r"\\\$|[€£¥]|\$"), ""), (re.compile(r"\*\*"), "^"), (re.compile(r"\\pm|\+/-|\+-(?=\s*\d)"), r"\\pm "),
    (re.compile(r"(?<=\d)\{,\}(?=\d{3}(?!\d))"), ""), (re.compile(r"(?<=\d)\{,\}(?=\d)"), "."),
    (re.compile(r"(?<=\d)_(?=\d{3}(?!\d))"), ""),
)  # fmt: skip
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:,\d{3})+)(?![\d,])")
_THOUSANDS_OF_SPACES = re.compile(r"(?<![\d.,])(\d{1,3})((?: \d{3})+)(?![\d,])")
_MIXED = re.compile(r"(?<![\d.^_{/}])(\d+)(?:\s+(\d+)\s*/\s*(\d+)(?![\d.])|\s*\\frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\})")


@cache
def _table() -> dict[int, str]:
    return str.maketrans(_SIGNS)


def clean(text: str) -> str:
    """Plain LaTeX of the same meaning."""
    text = re.sub("[" + "".join(_POWERS) + "]+", lambda run: "^{" + "".join(_POWERS[sign] for sign in run.group()) + "}", text)
    text = _SPACES.sub(" ", _GONE.sub("", text.translate(_table())))
    for pattern, better in _SAME:
        text = pattern.sub(better, text)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)(?!\d)", r"\\frac{\1}{\2}", text)
    return " ".join(text.split())


def without_thousands(text: str) -> str:
    """1,000 and 1 000 as 1000. A pair in brackets, as (100,200), has no thousands."""
    text = _THOUSANDS.sub(lambda found: found.group() if _is_pair(text, found) else found.group().replace(",", ""), text)
    return _THOUSANDS_OF_SPACES.sub(lambda found: found.group().replace(" ", ""), text)


def _is_pair(text: str, found: re.Match) -> bool:
    before, after = text[: found.start()].rstrip(), text[found.end() :].lstrip()
    return before.endswith(("(", "[", "{")) and after.startswith((")", "]", "\\}"))


def with_mixed_numbers(text: str) -> str:
    """2 1/2 as (2+1/2), where what stands behind is a proper fraction."""

    def whole(found: re.Match) -> str:
        number, top, bottom = found[1], found[2] or found[4], found[3] or found[5]
        proper = len(top) < 10 and len(bottom) < 10 and int(top) < int(bottom)
        return f"({number}+{top}/{bottom})" if proper else found.group()

    return _MIXED.sub(whole, text)
