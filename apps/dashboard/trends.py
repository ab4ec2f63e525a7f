"""Static charts: a few curves on one pair of axes, drawn on the server."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WIDTH = 640
HEIGHT = 150
ROOM = 6
PEOPLE = "people"
Points = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Line:
    """A curve; `points` are those of an SVG polyline.

    `kind` is people, lead (the subject of the suspicion) or beside.
    """

    name: str
    points: str
    first: float
    last: float
    kind: str


@dataclass(frozen=True)
class Drawing:
    """A chart; `low` … `high` are the values at its edges, `since` … `until` the steps."""

    lines: tuple[Line, ...]
    low: float
    high: float
    since: float
    until: float
    width: int = WIDTH
    height: int = HEIGHT


def draw_series(series: Mapping[str, Points], is_share: bool = True) -> Drawing | None:
    """Return the chart; None if no curve has two distinct points.

    Shares and rewards always have the range 0 to 1.
    """
    curves = {name: points for name, points in series.items() if len(points) > 1}
    if not curves:
        return None
    steps = [step for points in curves.values() for step, _ in points]
    values = [value for points in curves.values() for _, value in points]
    low = min(0.0, *values)
    high = max(1.0 if is_share and max(values) <= 1 else 0.0, *values)
    since = min(steps)
    until = max(steps)
    if since == until:
        return None

    def place(step: float, value: float) -> str:
        x = (step - since) / (until - since) * WIDTH
        y = HEIGHT - ROOM - (value - low) / (high - low) * (HEIGHT - 2 * ROOM)
        return f"{x:.1f},{y:.1f}"

    machine = [name for name in curves if name != PEOPLE]
    kinds = {PEOPLE: PEOPLE} | {name: "beside" if n else "lead" for n, name in enumerate(machine)}
    lines = [
        Line(
            name,
            " ".join(place(*point) for point in points),
            points[0][1],
            points[-1][1],
            kinds[name],
        )
        for name, points in curves.items()
    ]
    return Drawing(tuple(lines), low, high, since, until)


def sketch_series(series: Mapping[str, Mapping[str, list]], names: Iterable[str]) -> Drawing | None:
    """Return the chart of columns ({"x": …, "y": …}) that is shown until scripts draw it."""
    return draw_series(
        {
            name: list(zip(series[name]["x"], series[name]["y"], strict=True))
            for name in names
            if name in series
        }
    )


def find_last_values(
    series: Mapping[str, Mapping[str, list]], names: Iterable[str]
) -> dict[str, float | None]:
    """Return the last value of each series; None if it has none."""
    values = {name: series.get(name, {"y": []})["y"] for name in names}
    return {name: numbers[-1] if numbers else None for name, numbers in values.items()}
