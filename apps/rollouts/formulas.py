"""LaTeX formulas in model output as MathML, which browsers draw themselves.

latex2mathml does not escape the text of a formula, and passes links on. So its element tree is
rebuilt here: only elements and attributes of the tables below, every text escaped.
"""

import re
from html import unescape
from xml.etree.ElementTree import Element

from django.utils.html import escape
from latex2mathml.converter import convert_to_element

MAX_FORMULA_LENGTH = 2_000  # characters of one formula
DEEPEST = 60  # nested elements
MAX_ELEMENTS = 3_000
# Commands that define others: a few of them can expand to gigabytes.
DEFINES = re.compile(
    r"\\(?:(?:re|provide)?newcommand|renew|def|gdef|edef|let|Declare\w+|newenv\w+)"
)
# Numbered environments, and those that latex2mathml draws as one line: each as one it knows.
ENVIRONMENTS = re.compile(
    r"\\(begin|end)\{(align|aligned|alignedat|gathered|gather\*?|eqnarray\*?)\}"
)
TAGS = {
    "math",
    "menclose",
    "mfrac",
    "mi",
    "mn",
    "mo",
    "mover",
    "mpadded",
    "mphantom",
    "mroot",
    "mrow",
    "mspace",
    "msqrt",
    "mstyle",
    "msub",
    "msubsup",
    "msup",
    "mtable",
    "mtd",
    "mtext",
    "mtr",
    "munder",
    "munderover",
}
ATTRIBUTES = {
    "accent",
    "columnalign",
    "display",
    "displaystyle",
    "fence",
    "form",
    "linebreak",
    "linethickness",
    "mathvariant",
    "maxsize",
    "minsize",
    "notation",
    "scriptlevel",
    "stretchy",
    "width",
}
VALUE = re.compile(r"[\w.+ -]{0,40}", re.ASCII)


class NoFormula(Exception):
    """An error for LaTeX that cannot be drawn; it is shown as it stands."""


def mathml(latex: str, is_block: bool) -> str:
    """Return the formula as safe MathML in a span whose title is the source.

    Raises NoFormula for what is too long, defines commands, or is no LaTeX.
    """
    if len(latex) > MAX_FORMULA_LENGTH or DEFINES.search(latex):
        raise NoFormula
    source = ENVIRONMENTS.sub(r"\\\1{split}", latex)
    try:
        tree = convert_to_element(source, display="block" if is_block else "inline")
    except Exception as error:  # the parser has no error class of its own
        raise NoFormula from error
    kind = "formula block" if is_block else "formula"
    return f'<span class="{kind}" title="{escape(latex.strip())}">{_Writer().written(tree)}</span>'


class _Writer:
    """Write an element tree as text, with a limit on its size."""

    def __init__(self) -> None:
        self.left = MAX_ELEMENTS

    def written(self, element: Element, depth: int = 0) -> str:
        self.left -= 1
        if self.left < 0 or depth > DEEPEST:
            raise NoFormula
        inside = escape(unescape(element.text or "")) + "".join(
            self.written(child, depth + 1) + escape(unescape(child.tail or "")) for child in element
        )
        if element.tag not in TAGS:
            return f"<mrow>{inside}</mrow>"
        attributes = "".join(
            f' {name}="{value}"'
            for name, value in element.attrib.items()
            if name in ATTRIBUTES and VALUE.fullmatch(value)
        )
        return f"<{element.tag}{attributes}>{inside}</{element.tag}>"
