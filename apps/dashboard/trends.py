"""A few curves on one pair of axes, drawn on the server: for what was seen once, and does not move while it is looked at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, ROOM = 640, 150, 6
PEOPLE = "people"
Points = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Line:
    """`points`: as SVG's polyline takes them; `kind`: people, lead (what the suspicion is about) or beside."""

    name: str
    points: str
    first: float
    last: float
    kind: str


@dataclass(frozen=True)
class Drawing:
    """`low` … `high`: values of the lower and the upper edge; `since` … `until`: updates of the sides."""

    lines: tuple[Line, ...]
    low: float
    high: float
    since: int
    until: int
    width: int = WIDTH
    height: int = HEIGHT


def drawing_of(series: Mapping[str, Points], is_share: bool = True) -> Drawing | None:
    """None where no curve has two points apart. Shares and rewards stand between 0 and 1, whatever they reach."""
    curves = {name: points for name, points in series.items() if len(points) > 1}
    if not curves:
        return None
    steps = [step for points in curves.values() for step, _ in points]
    values = [value for points in curves.values() for _, value in points]
    low, high = min(0.0, *values), max(1.0 if is_share and max(values) <= 1 else 0.0, *values)
    since, until = min(steps), max(steps)
    if since == until:
        return None

    def place(step: float, value: float) -> str:
        x = (step - since) / (until - since) * WIDTH
        y = HEIGHT - ROOM - (value - low) / (high - low) * (HEIGHT - 2 * ROOM)
        return f"{x:.1f},{y:.1f}"

    machine = [name for name in curves if name != PEOPLE]
    kinds = {PEOPLE: PEOPLE} | {name: "beside" if n else "lead" for n, name in enumerate(machine)}
    lines = [
        Line(name, " ".join(place(*point) for point in points), points[0][1], points[-1][1], kinds[name])
        for name, points in curves.items()
    ]
    return Drawing(tuple(lines), low, high, since, until)


def sketch_of(series: Mapping[str, Mapping[str, list]], names: Iterable[str]) -> Drawing | None:
    """Of columns as scripts take them ({"x": …, "y": …}): what stands in their chart until they draw it, or if none does."""
    return drawing_of({name: list(zip(series[name]["x"], series[name]["y"], strict=True)) for name in names if name in series})


def newest_of(series: Mapping[str, Mapping[str, list]], names: Iterable[str]) -> dict[str, float | None]:
    """The last value of each; None of one that has none."""
    values = {name: series.get(name, {"y": []})["y"] for name in names}
    return {name: known[-1] if known else None for name, known in values.items()}
