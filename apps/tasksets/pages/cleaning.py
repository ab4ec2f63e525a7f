"""Sanitising of a policy's page by an allow-list of elements, attributes and styles.

Scripts, pictures, frames, links to files and all other elements that are not listed are refused by
name; attributes that are not, addresses and handlers among them, are left out.
"""

import io
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from apps.tasksets.pages import styles
from apps.tasksets.pages.refusals import NoPage

MAX_MARKUP_LENGTH = 20_000  # characters of markup
MAX_ELEMENTS = 500
DEEPEST = 32
MAX_MARKS = 4 * MAX_ELEMENTS  # of "<": counted before anything is parsed
MAX_SPANNED = 50  # rows or columns that one cell takes
ELEMENTS = frozenset(
    {
        "html",
        "body",
        "div",
        "span",
        "p",
        "br",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "table",
        "caption",
        "colgroup",
        "col",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "th",
        "td",
        "header",
        "footer",
        "main",
        "nav",
        "section",
        "article",
        "aside",
        "metric",
        "figcaption",
        "blockquote",
        "pre",
        "code",
        "samp",
        "kbd",
        "em",
        "strong",
        "b",
        "i",
        "u",
        "s",
        "del",
        "ins",
        "small",
        "sub",
        "sup",
        "mark",
        "q",
        "abbr",
        "cite",
        "time",
        "address",
        "center",
        "a",
        "form",
        "fieldset",
        "legend",
        "label",
        "button",
        "input",
        "textarea",
        "select",
        "option",
        "details",
        "summary",
        "hgroup",
        "search",
    }
)
NOT_SHOWN = frozenset({"head", "title", "meta"})
ATTRIBUTES = frozenset(
    {"class", "id", "type", "value", "checked", "start", "reversed", "hidden", "open"}
)
SPANS = frozenset({"colspan", "rowspan", "span"})


def cleaned(html: str) -> str:
    """Return the page as it is rendered: one <style> in its head, and a body of plain elements.

    Raises NoPage.
    """
    if len(html) > MAX_MARKUP_LENGTH:
        raise NoPage(f"longer than {MAX_MARKUP_LENGTH} characters")
    if html.count("<") > MAX_MARKS:
        raise NoPage(f"more than {MAX_MARKS} tags")
    try:
        return _Page(_parsed(html)).written()
    except RecursionError:
        raise NoPage("styles are nested too deep") from None


def _parsed(html: str) -> Element:
    import tinyhtml5

    text = html.encode("utf-8", "replace").decode()  # halves of pairs are no characters
    return tinyhtml5.parse(
        io.StringIO(text), namespace_html_elements=False
    )  # a bare string might be the name of a file


class _Page:
    """Sanitised copy of a parsed page. Raises NoPage for refused content."""

    def __init__(self, root: Element) -> None:
        self.elements = 0
        self.sheets: list[str] = []
        self.root = Element("html")
        self.style = ElementTree.SubElement(ElementTree.SubElement(self.root, "head"), "style")
        self._take(root, self.root, 1)

    def written(self) -> str:
        self.style.text = styles.rendered_rules("\n".join(self.sheets))
        return "<!doctype html>" + ElementTree.tostring(
            self.root, encoding="unicode", method="html"
        )

    def _take(self, element: Element, copy: Element, depth: int) -> None:
        """Copy the allowed attributes, text and children of `element`. Raises NoPage."""
        if depth > DEEPEST:
            raise NoPage(f"elements nested deeper than {DEEPEST}")
        copy.attrib.update(_attributes(element))
        copy.text = element.text
        for child in element:
            self._take_child(child, copy, depth)

    def _take_child(self, child: Element, parent: Element, depth: int) -> None:
        name = child.tag if isinstance(child.tag, str) else ""  # a comment's is none
        if name == "style":
            self.sheets.append(child.text or "")
        elif name == "head":
            self._take(child, Element("head"), depth + 1)
        elif name in ELEMENTS:
            self._count()
            copy = ElementTree.SubElement(parent, name)
            self._take(child, copy, depth + 1)
            copy.tail = child.tail
            return
        elif name and name not in NOT_SHOWN:
            raise NoPage(f"<{name.rpartition('}')[2][:30]}> is not supported")
        _append_text(parent, child.tail)

    def _count(self) -> None:
        self.elements += 1
        if self.elements > MAX_ELEMENTS:
            raise NoPage(f"more than {MAX_ELEMENTS} elements")


def _append_text(parent: Element, words: str | None) -> None:
    """Append text that followed a removed element."""
    if not words:
        return
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + words
    else:
        parent.text = (parent.text or "") + words


def _attributes(element: Element) -> dict[str, str]:
    attributes = {name: value for name, value in element.items() if name in ATTRIBUTES}
    for name in SPANS & set(element.keys()):
        stripped = element.get(name, "").strip()
        if not stripped.isdecimal():
            continue
        if len(stripped) > 9 or int(stripped) > MAX_SPANNED:
            raise NoPage(f"{name}={stripped[:12]} is too large; at most {MAX_SPANNED}")
        attributes[name] = stripped
    if element.tag == "a" and element.get("href") is not None:
        attributes["href"] = "#"  # it looks like a link, and leads nowhere
    if style := styles.declarations(element.get("style", "")):
        attributes["style"] = style
    return attributes
