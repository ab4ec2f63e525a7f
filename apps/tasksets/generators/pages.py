"""Write again what is seen, as HTML: simple pages of headings, words, lists, tables, boxes and
buttons.
"""

import random
from collections.abc import Callable, Iterator

from apps.tasksets.generators.seen import COLOURS, build_picture_task, distinct
from apps.tasksets.pages import HEIGHT, WIDTH, render_page, require_renderer
from apps.tasksets.rows import TaskRow
from apps.tasksets.tone_language import FEW_OBJECTS

MIN_PARTS = 2
MAX_PARTS = 3  # parts of a page
PAPERS = ("#ffffff", "#f5ebd7", "#e1eefa", "#e8f5e8")
ACTIONS = ("Buy", "Send", "Save", "Open", "Cancel", "Sign in", "Search", "Share")
QUESTION = (
    f"Write this page as HTML, with its styles inside. It is shown in a window of {WIDTH} ×"
    f" {HEIGHT} pixels."
)
Draw = Callable[[random.Random], str]


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different pages; the answer is {"html": the page}.

    Raises NoRenderer where none can be rendered.
    """
    require_renderer()
    return distinct(size, seed, _draw)


def _draw(draw: random.Random) -> TaskRow:
    parts = draw.sample(sorted(PARTS), draw.randint(MIN_PARTS, MAX_PARTS))
    body = "\n".join(PARTS[part](draw) for part in parts)
    html = (
        "<!doctype html>\n<html><head><style>body { margin: 8px; background:"
        f" {draw.choice(PAPERS)}; font: 13px sans-serif"
        f" }}</style></head>\n<body>\n{body}\n</body></html>"
    )
    return build_picture_task(render_page(html), QUESTION, {"html": html}, "html", {"parts": parts})


def _colour(draw: random.Random) -> str:
    return "#{:02x}{:02x}{:02x}".format(*COLOURS[draw.choice(list(COLOURS))])


def _draw_words(draw: random.Random, count: int = 1) -> list[str]:
    return draw.sample(FEW_OBJECTS, count)


def _heading(draw: random.Random) -> str:
    words = " ".join(_draw_words(draw, 2))
    return (
        f'<h2 style="margin: 4px 0; font-size: {draw.choice((18, 22, 26))}px; color:'
        f' {_colour(draw)}">{words.capitalize()}</h2>'
    )


def _sentence(draw: random.Random) -> str:
    subject, companion = _draw_words(draw, 2)
    return (
        f'<p style="margin: 4px 0; text-align: {draw.choice(("left", "center", "right"))}">The'
        f" {subject} and <b>the {companion}</b>.</p>"
    )


def _list(draw: random.Random) -> str:
    items = "".join(f"<li>{word}</li>" for word in _draw_words(draw, draw.randint(2, 3)))
    kind = draw.choice(("ul", "ol"))
    return f'<{kind} style="margin: 4px 0">{items}</{kind}>'


def _table(draw: random.Random) -> str:
    rows = "".join(
        f"<tr><td>{word}</td><td>{draw.randint(1, 99)}</td></tr>"
        for word in _draw_words(draw, draw.randint(2, 3))
    )
    head = f'<tr style="background: {_colour(draw)}; color: white"><th>Item</th><th>Price</th></tr>'
    return (
        '<table style="margin: 4px 0; border-collapse: collapse; border: 1px solid'
        f' #888888">{head}{rows}</table>'
    )


def _boxes(draw: random.Random) -> str:
    boxes = "".join(
        f'<div style="width: {draw.choice((32, 44, 56))}px; height: {draw.choice((20, 28, 36))}px;'
        f' background: {_colour(draw)}; border-radius: {draw.choice((0, 0, 8))}px"></div>'
        for _ in range(draw.randint(1, 3))
    )
    return f'<div style="display: flex; gap: 8px; margin: 6px 0">{boxes}</div>'


def _button(draw: random.Random) -> str:
    corners = draw.choice((0, 4, 10))
    style = (
        f"background: {_colour(draw)}; color: white; border: none; border-radius: {corners}px;"
        " padding: 4px 10px"
    )
    return f'<button style="{style}">{draw.choice(ACTIONS)}</button>'


PARTS: dict[str, Draw] = {
    "boxes": _boxes,
    "button": _button,
    "heading": _heading,
    "list": _list,
    "sentence": _sentence,
    "table": _table,
}
