"""A Sankey diagram with two splits, drawn on the server.

Streams are stretched horizontally to the available width; heights are CSS pixels, so that labels
keep their size on a phone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

ROOM = 240  # height of all streams together, in CSS pixels
ROW = 40  # height of a label of two lines
GAP = 4  # between two ends, in CSS pixels
COLUMNS = (0.0, 31.0, 62.0)  # percent of the width
THICK = 1.2


@dataclass(frozen=True)
class End:
    """The end of a stream.

    `kind` sets its colour; `query` leads to the list of its rollouts, "" without one.
    """

    title: str
    count: int
    kind: str
    query: str = ""


@dataclass(frozen=True)
class Stream:
    title: str
    kind: str
    ends: Sequence[End]

    @property
    def count(self) -> int:
        return sum(end.count for end in self.ends)


@dataclass(frozen=True)
class Node:
    """A bar with a label; `x`, `words_x` and `room` are percentages."""

    title: str
    count: int
    kind: str
    x: float
    y: float
    height: float
    words_y: float
    words_x: float
    room: float


@dataclass(frozen=True)
class Ribbon:
    path: str
    kind: str
    title: str


@dataclass(frozen=True)
class Sankey:
    nodes: Sequence[Node]
    ribbons: Sequence[Ribbon]
    height: float
    thick: float = THICK
    row: int = ROW


def draw_sankey(title: str, streams: Sequence[Stream]) -> Sankey:
    """Return the diagram of `streams`: at least one, none of them empty."""
    total = sum(stream.count for stream in streams)
    scale = ROOM / total
    top = 0.0
    nodes = []
    ribbons = []
    middles = []
    for stream in streams:
        first = top
        leaves, top = _place_ends(stream, top, scale)
        y = (first + top - GAP - stream.count * scale) / 2
        middles.append((stream, y))
        for end, leaf, thick in leaves:
            nodes.append(_node(end.title, end.count, end.kind, 2, leaf, thick))
            ribbons.append(
                _ribbon(1, y, leaf, thick, end.kind, f"{stream.title}, {end.title}: {end.count:,}")
            )
            y += thick
    root = (top - GAP - ROOM) / 2
    nodes.append(_node(title, total, "", 0, root, ROOM))
    for stream, y in middles:
        thick = stream.count * scale
        nodes.append(_node(stream.title, stream.count, stream.kind, 1, y, thick))
        ribbons.append(_ribbon(0, root, y, thick, stream.kind, f"{stream.title}: {stream.count:,}"))
        root += thick
    return Sankey(nodes, ribbons, round(top - GAP, 1))


def _place_ends(
    stream: Stream, top: float, scale: float
) -> tuple[list[tuple[End, float, float]], float]:
    """Return the ends of a stream with y and thickness, placed from `top` down; and the new top."""
    placed = []
    for end in stream.ends:
        thick = end.count * scale
        slot = max(thick, ROW)
        placed.append((end, top + (slot - thick) / 2, thick))
        top += slot + GAP
    return placed, top


def _node(title: str, count: int, kind: str, column: int, y: float, height: float) -> Node:
    words = COLUMNS[column] + THICK + 1
    until = (*COLUMNS, 100.0)[column + 1]
    return Node(
        title,
        count,
        kind,
        COLUMNS[column],
        round(y, 1),
        round(max(1.0, height), 1),
        round(y + height / 2 - ROW / 2, 1),
        words,
        until - words,
    )


def _ribbon(column: int, y: float, to_y: float, thick: float, kind: str, title: str) -> Ribbon:
    """Return the ribbon from this column's bar to the next one's, horizontal at both ends."""
    x = COLUMNS[column] + THICK
    to_x = COLUMNS[column + 1]
    half = (x + to_x) / 2
    thick = max(1.0, thick)
    forward = f"M{x:.1f} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    backward = (
        f"V{to_y + thick:.1f}C{half:.1f} {to_y + thick:.1f} {half:.1f} {y + thick:.1f} {x:.1f}"
        f" {y + thick:.1f}Z"
    )
    return Ribbon(forward + backward, kind, title)
