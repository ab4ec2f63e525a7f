"""Sanitising of a page's styles by an allow-list of plain properties of boxes and text.

What names an address, or may cost more than it says (variables, other functions, large numbers,
rules about pages and fonts), is refused by name. What is merely not known here is left out, as
browsers do.
"""

import math
from collections.abc import Iterable, Iterator

from apps.tasksets.pages.refusals import NoPage

MAX_RULES = 200
DEEPEST = 8  # brackets in brackets
MAX_SELECTOR_LENGTH = 200  # characters of a rule's selectors: each is held against each element
MAX_NUMBER = 10_000  # of a number, whatever its unit
MAX_RELATIVE_SIZE = 50  # of a size that counts from the font's: elements in elements multiply it
MAX_TRACKS = 50  # that `repeat` makes
SIDES = ("top", "right", "bottom", "left")
PROPERTIES = frozenset(
    {
        "align-content",
        "align-items",
        "align-self",
        "background",
        "background-color",
        "background-image",
        "border",
        "border-collapse",
        "border-color",
        "border-radius",
        "border-spacing",
        "border-style",
        "border-width",
        "box-sizing",
        "caption-side",
        "clear",
        "color",
        "column-gap",
        "content",
        "display",
        "empty-cells",
        "flex",
        "flex-basis",
        "flex-direction",
        "flex-flow",
        "flex-grow",
        "flex-shrink",
        "flex-wrap",
        "float",
        "font",
        "font-family",
        "font-size",
        "font-style",
        "font-variant",
        "font-weight",
        "gap",
        "grid-column",
        "grid-row",
        "grid-template-columns",
        "grid-template-rows",
        "height",
        "justify-content",
        "justify-items",
        "justify-self",
        "letter-spacing",
        "line-height",
        "list-style",
        "list-style-position",
        "list-style-type",
        "margin",
        "max-height",
        "max-width",
        "min-height",
        "min-width",
        "opacity",
        "order",
        "outline",
        "outline-color",
        "outline-style",
        "outline-width",
        "overflow",
        "overflow-wrap",
        "padding",
        "place-content",
        "place-items",
        "place-self",
        "position",
        "row-gap",
        "table-layout",
        "text-align",
        "text-decoration",
        "text-decoration-color",
        "text-decoration-line",
        "text-decoration-style",
        "text-indent",
        "text-transform",
        "transform",
        "transform-origin",
        "vertical-align",
        "visibility",
        "white-space",
        "width",
        "word-break",
        "word-spacing",
        "z-index",
        *SIDES,
        *(f"margin-{side}" for side in SIDES),
        *(f"padding-{side}" for side in SIDES),
        *(f"border-{side}{part}" for side in SIDES for part in ("", "-color", "-style", "-width")),
        *(f"border-{y}-{x}-radius" for y in ("top", "bottom") for x in ("left", "right")),
    }
)
FUNCTIONS = frozenset(
    {
        "rgb",
        "rgba",
        "hsl",
        "hsla",
        "calc",
        "min",
        "max",
        "clamp",
        "linear-gradient",
        "radial-gradient",
        "repeat",
        "minmax",
        "fit-content",
        "translate",
        "translatex",
        "translatey",
        "scale",
        "scalex",
        "scaley",
        "rotate",
    }
)
SILENT_RULES = frozenset(
    {"charset", "keyframes", "-webkit-keyframes"}
)  # which would change nothing that is seen
RELATIVE_UNITS = frozenset({"em", "rem", "ex", "ch", "cap", "ic", "lh", "rlh"})
NO_VALUE = frozenset(
    {"at-keyword", "{} block", "unicode-range", "error"}
)  # parts with which a declaration is none


def declarations(css: str) -> str:
    """Return the declarations of a style attribute that are rendered. Raises NoPage."""
    import tinycss2

    return _declared(tinycss2.parse_blocks_contents(css, skip_comments=True, skip_whitespace=True))


def rendered_rules(css: str) -> str:
    """Return the rules of a <style> element that are rendered, without any "<". Raises NoPage."""
    import tinycss2

    if css.count("{") > MAX_RULES:
        raise NoPage(f"more than {MAX_RULES} style rules")
    rules = _allowed_rules(tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True))
    # An escape in a string is written out as its character: nothing may end the element that this
    # is put into.
    return "\n".join(rules).replace("<", "\\3c ")


def _allowed_rules(nodes: Iterable) -> Iterator[str]:
    import tinycss2

    for node in nodes:
        if node.type == "at-rule":
            yield from _at_rule(node)
        elif node.type == "qualified-rule" and (selectors := _selectors(node.prelude)):
            parsed = tinycss2.parse_blocks_contents(
                node.content, skip_comments=True, skip_whitespace=True
            )
            yield f"{selectors}{{{_declared(parsed)}}}"


def _at_rule(node) -> Iterator[str]:
    import tinycss2

    name = node.lower_at_keyword
    if name in SILENT_RULES:
        return
    if name != "media":
        raise NoPage(f"@{name[:20]} is not supported")
    within = tinycss2.parse_rule_list(node.content or (), skip_comments=True, skip_whitespace=True)
    if media := _selectors(node.prelude):
        yield "\n".join((f"@media {media}{{", *_allowed_rules(within), "}"))


def _selectors(prelude: list) -> str:
    """Return the selectors of a rule, "" if they are invalid. Raises NoPage."""
    import tinycss2

    if any(node.type in ("url", "error", "{} block") for node in _walk_nodes(prelude)):
        return ""
    selector = tinycss2.serialize(prelude).strip()
    if len(selector) > MAX_SELECTOR_LENGTH:
        raise NoPage(f"selectors longer than {MAX_SELECTOR_LENGTH} characters")
    return selector


def _declared(nodes: Iterable) -> str:
    import tinycss2

    declarations_written = []
    for node in nodes:
        if (
            node.type == "declaration"
            and node.lower_name in PROPERTIES
            and _is_value(node.lower_name, node.value)
        ):
            urgent = " !important" if node.important else ""
            declarations_written.append(
                f"{node.lower_name}:{tinycss2.serialize(node.value)}{urgent}"
            )
    return ";".join(declarations_written)


def _is_value(name: str, value: list) -> bool:
    """Tell whether these tokens can be a value of the property. Raises NoPage for refused ones."""
    inner_nodes = list(_walk_nodes(value))
    for node in inner_nodes:
        if node.type == "url" or (node.type == "error" and "url" in node.kind):
            raise NoPage("url() is not rendered")
        if node.type == "function" and node.lower_name not in FUNCTIONS:
            raise NoPage(f"{node.lower_name[:20]}() is not supported")
        if node.type in ("number", "percentage", "dimension") and name != "z-index":
            _require_small(node)
        if node.type == "function" and node.lower_name == "repeat":
            _require_few_tracks(node)
    return not any(node.type in NO_VALUE for node in inner_nodes)


def _require_small(node) -> None:
    unit = node.lower_unit if node.type == "dimension" else ""
    largest = MAX_RELATIVE_SIZE if unit in RELATIVE_UNITS else MAX_NUMBER
    if not math.isfinite(node.value) or abs(node.value) > largest:
        raise NoPage(f"{node.representation[:20]}{unit[:10]} is too large; at most {largest}")


def _require_few_tracks(repeat) -> None:
    if any(node.type == "number" and node.value > MAX_TRACKS for node in repeat.arguments):
        raise NoPage(f"repeat() with more than {MAX_TRACKS} tracks")


def _walk_nodes(nodes: Iterable) -> Iterator:
    """Yield all nodes, with those within brackets. Raises NoPage."""
    pending = [(node, 1) for node in nodes]
    while pending:
        node, depth = pending.pop()
        if depth > DEEPEST:
            raise NoPage(f"styles with brackets nested deeper than {DEEPEST}")
        yield node
        inside = getattr(node, "arguments", None) or getattr(node, "content", None) or ()
        pending += [(inner_node, depth + 1) for inner_node in inside]
